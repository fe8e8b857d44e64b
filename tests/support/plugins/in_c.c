/* A plugin in C, straight over the ABI: everything in core/plugin.h is used, and what must be refused is tried. The payload's
 * first word says what to do, the rest is for it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/plugin.h"

static locksley_text text(const char* of) {
  locksley_text result;
  result.data = of;
  result.size = strlen(of);
  return result;
}

static int32_t write_number(locksley_context* context, uint64_t number) {
  char digits[32];
  (void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
  return context->host->write(context, text(digits));
}

/* What a handler's jobs share. */
struct state {
  char handler[64];
};

static int32_t init(locksley_setup* setup, void** result) {
  struct state* state = calloc(1, sizeof(*state));
  if (state == NULL) return setup->fail(setup, text("no memory"));
  if (setup->handler.size >= sizeof(state->handler)) {
    free(state);
    return setup->fail(setup, text("a long name"));
  }
  memcpy(state->handler, setup->handler.data, setup->handler.size);
  *result = state;
  return LOCKSLEY_OK;
}

static void teardown(void* state) {
  const char* file = getenv("LOCKSLEY_TEST_TEARDOWN");
  FILE* out = file == NULL ? NULL : fopen(file, "a");
  /* Waits, so that a fault that ends the process meanwhile shows. */
  if (file != NULL) (void)poll(NULL, 0, 100);
  if (out != NULL) {
    (void)fprintf(out, "%s\n", ((struct state*)state)->handler);
    (void)fclose(out);
  }
  free(state);
}

/* fib by sub-jobs: each argument is a copy, and says where to put the result. */
struct fib {
  uint64_t n;
  uint64_t* result;
};

static int32_t fib(locksley_context* context, void* argument) {
  struct fib own;
  memcpy(&own, argument, sizeof(own));
  if (own.n < 2) {
    *own.result = own.n;
    return LOCKSLEY_OK;
  }
  uint64_t first = 0, second = 0;
  struct fib left, right;
  locksley_group group;
  int32_t outcome = LOCKSLEY_OK;
  left.n = own.n - 1;
  left.result = &first;
  right.n = own.n - 2;
  right.result = &second;
  context->host->group_begin(context, &group);
  if (context->host->spawn(&group, fib, &left, sizeof(left)) != LOCKSLEY_OK) outcome = LOCKSLEY_FAILED;
  if (fib(context, &right) != LOCKSLEY_OK) outcome = LOCKSLEY_FAILED;
  if (context->host->wait(&group) != LOCKSLEY_OK) outcome = LOCKSLEY_FAILED;
  context->host->group_end(&group);
  *own.result = first + second;
  return outcome;
}

static int32_t fail_below(locksley_context* context, void* argument) {
  (void)argument;
  return context->host->fail(context, text("from below"));
}

static int32_t fail_silently(locksley_context* context, void* argument) {
  (void)context;
  (void)argument;
  return 77;
}

static int32_t write_below(locksley_context* context, void* argument) {
  (void)argument;
  return context->host->write(context, text("from below"));
}

static int32_t one_task(locksley_context* context, locksley_task task, size_t size) {
  static const char zeros[LOCKSLEY_MOST_ARGUMENT + 1] = {0};
  locksley_group group;
  int32_t outcome;
  context->host->group_begin(context, &group);
  outcome = context->host->spawn(&group, task, zeros, size);
  if (outcome == LOCKSLEY_OK) outcome = context->host->wait(&group);
  context->host->group_end(&group);
  return outcome;
}

/* Marks its indexes. */
static int32_t mark(locksley_context* context, void* argument, uint64_t low, uint64_t high) {
  unsigned char* marks = argument;
  uint64_t i;
  (void)context;
  for (i = low; i < high; ++i) ++marks[i];
  return LOCKSLEY_OK;
}

static int32_t fail_at_7(locksley_context* context, void* argument, uint64_t low, uint64_t high) {
  (void)argument;
  return low <= 7 && 7 < high ? context->host->fail(context, text("seven")) : LOCKSLEY_OK;
}

static int32_t loop(locksley_context* context, uint64_t high) {
  unsigned char* marks = calloc(high, 1);
  int32_t outcome;
  uint64_t i, once = 0;
  if (marks == NULL) return context->host->fail(context, text("no memory"));
  outcome = context->host->parallel_for(context, 0, high, 0, mark, marks);
  for (i = 0; i < high; ++i) once += marks[i] == 1;
  free(marks);
  return outcome != LOCKSLEY_OK ? outcome : write_number(context, once);
}

static int32_t describe(const struct state* state, locksley_context* context) {
  const locksley_host* host = context->host;
  (void)host->write(context, text(state->handler));
  (void)host->write(context, text(" "));
  (void)write_number(context, host->index(context));
  (void)host->write(context, text(" "));
  (void)write_number(context, host->attempt(context));
  (void)host->write(context, text(" "));
  (void)host->write(context, host->batch_id(context));
  (void)host->write(context, text(" "));
  (void)host->write(context, host->tenant(context));
  (void)host->write(context, text(" "));
  return host->write(context, host->trace(context));
}

static int is(locksley_text payload, const char* word) {
  const size_t size = strlen(word);
  return payload.size >= size && memcmp(payload.data, word, size) == 0;
}

static uint64_t number_after(locksley_text payload, const char* word) {
  char digits[32] = {0};
  const size_t skipped = strlen(word), size = payload.size - skipped;
  memcpy(digits, payload.data + skipped, size < sizeof(digits) - 1 ? size : sizeof(digits) - 1);
  return strtoull(digits, NULL, 10);
}

/* Sleeps until the job should stop, and checks the reason. "linger FD" first writes a byte to FD: the job has begun. */
static int32_t linger(locksley_context* context, locksley_text payload) {
  const locksley_host* host = context->host;
  const int64_t left = host->time_left(context);
  if (is(payload, "linger ") && write((int)number_after(payload, "linger "), "", 1) != 1) {
    return host->fail(context, text("cannot say that it has begun"));
  }
  host->sleep(context, UINT64_MAX);
  if (host->stop_reason(context) == LOCKSLEY_GO_ON) return host->fail(context, text("woken for nothing"));
  if (left >= 0 && host->time_left(context) != 0) return host->fail(context, text("there was time left"));
  (void)host->write(context, text("is not to be seen"));
  return LOCKSLEY_GAVE_UP;
}

static int32_t run(void* state, locksley_context* context, locksley_text payload) {
  const locksley_host* host = context->host;
  if (host->abi != LOCKSLEY_PLUGIN_ABI || !LOCKSLEY_HAS(host, parallel_for)) return LOCKSLEY_FAILED;
  if (is(payload, "echo ")) {
    payload.data += 5;
    payload.size -= 5;
    return host->write(context, payload);
  }
  if (is(payload, "describe")) return describe(state, context);
  if (is(payload, "fail")) {
    (void)host->write(context, text("is not to be seen"));
    (void)host->fail(context, text("is not the last"));
    return host->fail(context, text("as asked"));
  }
  if (is(payload, "crash")) abort();
  if (is(payload, "exit ")) exit((int)number_after(payload, "exit "));
  if (is(payload, "pid")) return write_number(context, (uint64_t)getpid());
  if (is(payload, "print ")) {
    (void)printf("printed: %.*s\n", (int)payload.size, payload.data);
    return host->write(context, text(getchar() == EOF ? "nothing to read" : "something to read"));
  }
  if (is(payload, "silent")) return LOCKSLEY_FAILED;
  if (is(payload, "give up")) return LOCKSLEY_GAVE_UP;
  if (is(payload, "linger")) return linger(context, payload);
  if (is(payload, "fib ")) {
    uint64_t result = 0;
    struct fib first;
    first.n = number_after(payload, "fib ");
    first.result = &result;
    return fib(context, &first) == LOCKSLEY_OK ? write_number(context, result) : LOCKSLEY_FAILED;
  }
  if (is(payload, "task fails")) return one_task(context, fail_below, 0);
  if (is(payload, "task is silent")) return one_task(context, fail_silently, LOCKSLEY_MOST_ARGUMENT);
  if (is(payload, "task writes")) return one_task(context, write_below, 1);
  if (is(payload, "large argument")) return one_task(context, fail_below, LOCKSLEY_MOST_ARGUMENT + 1);
  if (is(payload, "task is forgiven")) {
    if (one_task(context, fail_below, 0) == LOCKSLEY_OK) return host->fail(context, text("it did not fail"));
    return host->write(context, host->failure(context));
  }
  if (is(payload, "loop ")) return loop(context, number_after(payload, "loop "));
  if (is(payload, "seven")) return host->parallel_for(context, 0, 1000, 10, fail_at_7, NULL);
  return host->fail(context, text("what is that?"));
}

static const locksley_plugin plugin = {
    LOCKSLEY_PLUGIN_ABI, sizeof(locksley_plugin), {"in_c", 4}, {"is written in C", 15}, init, teardown, run};

const locksley_plugin* locksley_plugin_entry(void) { return &plugin; }
