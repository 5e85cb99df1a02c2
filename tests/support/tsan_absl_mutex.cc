// Teaches ThreadSanitizer what absl's locks order.
//
// Debian's absl is built without instrumentation and without its TSan annotations, so what
// one thread does under an absl::Mutex and another after it looks like a race. The linker is
// told (--wrap, tests/support/CMakeLists.txt) to send our calls through the functions below;
// they tell TSan about the order and are linked into the tests of the tsan preset only.
//
// What a lock does inside the library is hidden from TSan meanwhile: a thread that unlocks
// evaluates the conditions of the threads that wait, under a lock that TSan thinks is free.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

using absl::BlockingCounter;
using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);

namespace {

class HideReads {
 public:
  HideReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~HideReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
  HideReads(const HideReads&) = delete;
  HideReads& operator=(const HideReads&) = delete;
};

// What the caller did is seen by whoever acquires `sync` next.
void Release(const void* sync) { __tsan_release(const_cast<void*>(sync)); }
// What was released through `sync` is seen by the caller from here on.
void Acquire(const void* sync) { __tsan_acquire(const_cast<void*>(sync)); }

}  // namespace

// A wrapped function: `before` and `after` stand around the call of the real one.
#define WRAP_VOID(name, parameters, arguments, before, after) \
  extern "C" void __real_##name parameters;                   \
  extern "C" void __wrap_##name parameters {                  \
    before;                                                   \
    {                                                         \
      HideReads hide;                                         \
      __real_##name arguments;                                \
    }                                                         \
    after;                                                    \
  }
#define WRAP_BOOL(name, parameters, arguments, before, after) \
  extern "C" bool __real_##name parameters;                   \
  extern "C" bool __wrap_##name parameters {                  \
    before;                                                   \
    bool result = false;                                      \
    {                                                         \
      HideReads hide;                                         \
      result = __real_##name arguments;                       \
    }                                                         \
    after;                                                    \
    return result;                                            \
  }

WRAP_VOID(_ZN4absl7debian35Mutex4LockEv, (Mutex * mu), (mu), , Acquire(mu))
WRAP_VOID(_ZN4absl7debian35Mutex6UnlockEv, (Mutex * mu), (mu), Release(mu), )
WRAP_BOOL(_ZN4absl7debian35Mutex7TryLockEv, (Mutex * mu), (mu), , if (result) Acquire(mu))
WRAP_VOID(_ZN4absl7debian35Mutex10ReaderLockEv, (Mutex * mu), (mu), , Acquire(mu))
WRAP_VOID(_ZN4absl7debian35Mutex12ReaderUnlockEv, (Mutex * mu), (mu), Release(mu), )
WRAP_BOOL(_ZN4absl7debian35Mutex13ReaderTryLockEv, (Mutex * mu), (mu), , if (result) Acquire(mu))
WRAP_VOID(_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE, (Mutex * mu, const Condition& cond),
          (mu, cond), , Acquire(mu))
WRAP_VOID(_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE, (Mutex * mu, const Condition& cond),
          (mu, cond), Release(mu), Acquire(mu))
WRAP_BOOL(_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE,
          (Mutex * mu, const Condition& cond, Duration timeout), (mu, cond, timeout), Release(mu),
          Acquire(mu))
WRAP_BOOL(_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE,
          (Mutex * mu, const Condition& cond, Time deadline), (mu, cond, deadline), Release(mu),
          Acquire(mu))
WRAP_VOID(_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE, (CondVar * cv, Mutex* mu), (cv, mu),
          Release(mu), Acquire(mu))
WRAP_BOOL(_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE,
          (CondVar * cv, Mutex* mu, Duration timeout), (cv, mu, timeout), Release(mu), Acquire(mu))
WRAP_BOOL(_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE,
          (CondVar * cv, Mutex* mu, Time deadline), (cv, mu, deadline), Release(mu), Acquire(mu))
WRAP_VOID(_ZN4absl7debian312Notification6NotifyEv, (Notification * done), (done), Release(done), )
WRAP_BOOL(_ZN4absl7debian315BlockingCounter14DecrementCountEv, (BlockingCounter * counter),
          (counter), Release(counter), )
WRAP_VOID(_ZN4absl7debian315BlockingCounter4WaitEv, (BlockingCounter * counter), (counter), ,
          Acquire(counter))
WRAP_VOID(_ZNK4absl7debian312Notification19WaitForNotificationEv, (const Notification* done),
          (done), , Acquire(done))
WRAP_BOOL(_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
          (const Notification* done, Duration timeout), (done, timeout), ,
          if (result) Acquire(done))
WRAP_BOOL(_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE,
          (const Notification* done, Time deadline), (done, deadline), , if (result) Acquire(done))

#undef WRAP_VOID
#undef WRAP_BOOL
