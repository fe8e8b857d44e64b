/* The C ABI of plugins: the function that a shared object exports to run a handler's jobs, and the functions
 * that the host offers it. C99. C++ plugins include core/plugin_cxx.h, a layer over this header.
 *
 * A plugin exports one function, locksley_plugin_entry, which returns its description: a locksley_plugin that
 * stays valid and unchanged as long as the process lives. It links against nothing of Locksley: it reaches the
 * host's functions through pointers in each locksley_context.
 *
 * Versions. `abi` and `size` are the first members of each table for ever. `abi` changes when old plugins can
 * no longer run; the host then refuses them at the start, and names both numbers. Tables grow at their ends
 * only, and `size` is the length of a table in bytes. Before using a member that was added to version 1 of the
 * ABI later, check LOCKSLEY_HAS(table, member).
 *
 * Memory. Texts are bytes with a length, without a zero at the end. The side that passes a text owns it, and
 * the text is valid only during the call. A text that the host returns is valid as long as the context of that
 * call. Neither side frees memory that the other has allocated.
 *
 * Threads. The host calls `run` from any of its threads, from many at once, and `init` and `teardown` from
 * one, before the first job and after the last. A context belongs to the thread that received it, until the
 * function that received it returns; so does a group. Functions that allow more say so.
 *
 * Processes. A handler with `isolate` in its configuration has processes for its jobs, each with an `init`
 * and a `teardown` of its own and a thread that runs one job at a time. When the host starts, one more process
 * checks that `init` succeeds; it runs no jobs. In these processes sub-jobs and loops run on the one thread,
 * too. The host stops a job by ending its process, so `stop_reason` returns LOCKSLEY_GO_ON and `time_left` -1.
 * `attempt` returns 1; `tenant` and `trace` are empty. Standard input is empty, and standard output goes to
 * the host's log.
 *
 * Errors. No exception may leave a function, in either direction, nor a longjmp. Functions return
 * LOCKSLEY_OK; or they pass the reason to `fail` and return another number.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSLEY_PLUGIN_ABI 1u

/* Whether a table has a member, given that an older header may have declared the table. */
#define LOCKSLEY_HAS(table, member) \
  ((table)->size >= (size_t)((const char*)(&(table)->member + 1) - (const char*)(table)))

typedef struct locksley_text {
  const char* data; /* may be null if size is 0 */
  size_t size;
} locksley_text;

/* The results of functions. */
enum {
  LOCKSLEY_OK = 0,
  LOCKSLEY_FAILED = 1, /* and any number that is not listed here */
  LOCKSLEY_GAVE_UP = 2 /* of `run`: it ended early because it was asked to stop */
};

/* Why a job should stop. */
enum { LOCKSLEY_GO_ON = 0, LOCKSLEY_CANCELLED = 1, LOCKSLEY_TIMED_OUT = 2 };

/* Bytes of a sub-job's argument. */
enum { LOCKSLEY_MOST_ARGUMENT = 64 };

typedef struct locksley_host locksley_host;

/* For which job some code runs, and on which thread of the host. The host has members of its own after these. */
typedef struct locksley_context {
  const locksley_host* host;
} locksley_context;

/* Sub-jobs for which a plugin waits together. The plugin provides the memory, usually on its stack, and does not
 * read it. */
typedef struct locksley_group {
  void* of_the_host[16];
} locksley_group;

/* A sub-job. `argument`: a copy of the bytes given to `spawn`, aligned to 16; the sub-job's own. */
typedef int32_t (*locksley_task)(locksley_context* context, void* argument);
/* A burst of a loop: the indexes from low to high - 1. `argument` as given to `parallel_for`, the same for
 * all. */
typedef int32_t (*locksley_body)(locksley_context* context, void* argument, uint64_t low, uint64_t high);

/* What the host does for a plugin. Contexts are those of jobs, sub-jobs and bursts of loops. */
struct locksley_host {
  uint32_t abi;
  uint32_t size;

  /* The job's index in its batch; its attempt number: 1, or more if it may have been run before, in whole or in
   * part; the ids of its batch and tenant; the W3C trace context that its submitter gave, or nothing. */
  uint64_t (*index)(const locksley_context* context);
  uint32_t (*attempt)(const locksley_context* context);
  locksley_text (*batch_id)(const locksley_context* context);
  locksley_text (*tenant)(const locksley_context* context);
  locksley_text (*trace)(const locksley_context* context);

  /* Whether the job should stop, and why. Takes some nanoseconds; with a time limit, some tens. A long job calls
   * it from time to time; once the job should stop, its `run` returns LOCKSLEY_GAVE_UP. Any thread may call
   * it until `run` returns. */
  int32_t (*stop_reason)(const locksley_context* context);
  /* Nanoseconds until the job's time limit, not below 0; -1: it has none. */
  int64_t (*time_left)(const locksley_context* context);
  /* Blocks the thread for this many nanoseconds, or until the job should stop. */
  void (*sleep)(const locksley_context* context, uint64_t nanoseconds);

  /* Appends to the job's output. In the context of `run` only. */
  int32_t (*write)(locksley_context* context, locksley_text bytes);
  /* Says why the function that received the context is about to return LOCKSLEY_FAILED. Returns
   * LOCKSLEY_FAILED itself. The last call counts. In `run` the text becomes the job's error. In a sub-job or a
   * burst of a loop it passes to the context that waits for it, as if `fail` had been called there. */
  int32_t (*fail)(locksley_context* context, locksley_text why);
  /* The last text that `fail` received in this context, from the plugin or from a function of this table that
   * failed. Valid until the next failure. */
  locksley_text (*failure)(const locksley_context* context);

  /* Between group_begin and group_end a plugin may spawn sub-jobs and wait for them any number of times.
   * group_end waits once more. A function must end its groups before it returns. */
  void (*group_begin)(locksley_context* context, locksley_group* group);
  void (*group_end)(locksley_group* group);
  /* Queues a sub-job of this job for this thread: run by `wait`, last in first out, unless another thread
   * takes it before, oldest first. The `size` bytes of the argument, at most LOCKSLEY_MOST_ARGUMENT, are
   * copied. If it fails, nothing was queued. Otherwise the sub-job will run, even if the job should stop. */
  int32_t (*spawn)(locksley_group* group, locksley_task task, const void* argument, size_t size);
  /* Runs sub-jobs until all of the group have ended. Fails if one of them did, with the text of the
   * first. While they wait, wait, group_end and parallel_for also run sub-jobs of other jobs of the
   * batch. So hold no lock over them that a sub-job or a burst of the batch may take; and the time of
   * these counts against the time limit of the job that waits. */
  int32_t (*wait)(locksley_group* group);

  /* Runs `body` for bursts that together are the indexes from low to high - 1, on this thread and on
   * idle ones, and returns when all are done. A burst is at most `grain` long; 0 lets the host choose.
   * If a burst fails, or the job should stop, the rest is dropped; in the first case the loop fails,
   * with that burst's text. */
  int32_t (*parallel_for)(locksley_context* context, uint64_t low, uint64_t high, uint64_t grain,
                          locksley_body body, void* argument);
};

/* The argument of `init`; valid until it returns. */
typedef struct locksley_setup locksley_setup;
struct locksley_setup {
  uint32_t abi;
  uint32_t size;
  locksley_text handler; /* the name in the configuration: one plugin may serve several handlers */
  /* Says why `init` is about to return LOCKSLEY_FAILED. Returns LOCKSLEY_FAILED itself. */
  int32_t (*fail)(locksley_setup* setup, locksley_text why);
};

/* The description of a plugin. Constant. */
typedef struct locksley_plugin {
  uint32_t abi;  /* LOCKSLEY_PLUGIN_ABI */
  uint32_t size; /* sizeof(locksley_plugin) */
  locksley_text name;
  locksley_text description; /* a line, for people */
  /* Called once for each handler that names this plugin. The functions below get the pointer that it stores in
   * *state. Null: nothing to prepare. If it fails, the host does not start, and `teardown` is not called. */
  int32_t (*init)(locksley_setup* setup, void** state);
  /* Called after the last job. The plugin's own threads must have ended when it returns. The host does not call
   * it if the process must end before its jobs have ended. A process of a handler with `isolate` has the
   * handler's `grace` for it, and 2 s at most when the host ends. May be null. */
  void (*teardown)(void* state);
  /* Runs one job. The payload is valid until it returns. */
  int32_t (*run)(void* state, locksley_context* context, locksley_text payload);
} locksley_plugin;

#if defined(_WIN32)
#define LOCKSLEY_PLUGIN_EXPORT __declspec(dllexport)
#else
#define LOCKSLEY_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* The function that a plugin defines. A host finds it by its name. */
LOCKSLEY_PLUGIN_EXPORT const locksley_plugin* locksley_plugin_entry(void);

#ifdef __cplusplus
}
#endif
