// Attributes of clang's thread-safety analysis, under names of our own. For other compilers the
// macros are empty. Source: "Thread Safety Analysis", the Clang documentation; Hutchins, Ballman
// and Sutherland, "C/C++ Thread Safety Analysis", SCAM 2014. Used through core/sync/mutex.h and
// core/sync/thread_role.h.
#pragma once

#if defined(__clang__)
#define LOCKSLEY_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define LOCKSLEY_THREAD_ATTRIBUTE(x)
#endif

// ---- Of a type ----

// Its objects are capabilities: something that a thread holds or does not hold, such as a mutex.
#define LOCKSLEY_CAPABILITY(name) LOCKSLEY_THREAD_ATTRIBUTE(capability(name))
// Its objects acquire a capability in their constructor and release it in their destructor.
#define LOCKSLEY_SCOPED_CAPABILITY LOCKSLEY_THREAD_ATTRIBUTE(scoped_lockable)

// ---- Of a data member ----

// It is read and written only while the capability is held (read also while it is held shared).
#define LOCKSLEY_GUARDED_BY(capability) LOCKSLEY_THREAD_ATTRIBUTE(guarded_by(capability))

// ---- Of a function ----

// Its caller holds the capability, before and after.
#define LOCKSLEY_REQUIRES(...) LOCKSLEY_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LOCKSLEY_REQUIRES_SHARED(...) LOCKSLEY_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
// Its caller does not hold the capability: the function acquires it itself, or waits for a thread
// that does.
#define LOCKSLEY_EXCLUDES(...) LOCKSLEY_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// It returns with the capability held, or without it.
#define LOCKSLEY_ACQUIRE(...) LOCKSLEY_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LOCKSLEY_ACQUIRE_SHARED(...) LOCKSLEY_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define LOCKSLEY_RELEASE(...) LOCKSLEY_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define LOCKSLEY_RELEASE_SHARED(...) LOCKSLEY_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define LOCKSLEY_RELEASE_GENERIC(...) LOCKSLEY_THREAD_ATTRIBUTE(release_generic_capability(__VA_ARGS__))
#define LOCKSLEY_TRY_ACQUIRE(...) LOCKSLEY_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
// It returns only if the capability is held; from then on the compiler knows so.
#define LOCKSLEY_ASSERT_CAPABILITY(x) LOCKSLEY_THREAD_ATTRIBUTE(assert_capability(x))

// The body is not checked, only its calls. Needs a comment that says why.
#define LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS LOCKSLEY_THREAD_ATTRIBUTE(no_thread_safety_analysis)
