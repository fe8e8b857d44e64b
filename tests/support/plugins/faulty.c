/* A plugin with one fault, or one peculiarity, which the build chooses. */
#include <stdlib.h>
#include <unistd.h>

#include "core/plugin.h"

#ifdef FAULT_UNRESOLVED
int32_t a_function_that_is_nowhere(void);
#endif

static int32_t run(void* state, locksley_context* context, locksley_text payload) {
  (void)state;
  (void)payload;
#ifdef FAULT_UNRESOLVED
  if (a_function_that_is_nowhere() != 0) return LOCKSLEY_FAILED;
#endif
  return context->host->write(context, payload);
}

static int32_t init(locksley_setup* setup, void** state) {
  static const char why[] = "there is no market today";
  const locksley_text reason = {why, sizeof(why) - 1};
  *state = NULL;
#if defined(FAULT_INIT_FAILS)
  return setup->fail(setup, reason);
#elif defined(FAULT_INIT_CRASHES)
  (void)setup;
  (void)reason;
  abort();
#elif defined(FAULT_INIT_LEAVES_A_HELPER)
  (void)setup;
  (void)reason;
  if (fork() == 0) {
    sleep(300);
    _exit(0);
  }
  return LOCKSLEY_OK;
#elif defined(FAULT_INIT_IS_SILENT)
  (void)setup;
  (void)reason;
  return LOCKSLEY_FAILED;
#else
  (void)setup;
  (void)reason;
  return LOCKSLEY_OK;
#endif
}

static const locksley_plugin description = {
#ifdef FAULT_OTHER_VERSION
    LOCKSLEY_PLUGIN_ABI + 1,
#else
    LOCKSLEY_PLUGIN_ABI,
#endif
#if defined(FAULT_TOO_SMALL)
    sizeof(locksley_plugin) - 1,
#elif defined(OF_A_LATER_HEADER)
    sizeof(locksley_plugin) + 64,
#else
    sizeof(locksley_plugin),
#endif
    {"faulty", 6},
    {"has a fault", 11},
    init,
    NULL,
#ifdef FAULT_NO_RUN
    NULL,
#else
    run,
#endif
};

#ifdef FAULT_NO_ENTRY
LOCKSLEY_PLUGIN_EXPORT const locksley_plugin* another_name(void);
const locksley_plugin* another_name(void) { return &description; }
#elif defined(FAULT_NO_DESCRIPTION)
const locksley_plugin* locksley_plugin_entry(void) { return &description + 1 == NULL ? &description : NULL; }
#else
const locksley_plugin* locksley_plugin_entry(void) { return &description; }
#endif
