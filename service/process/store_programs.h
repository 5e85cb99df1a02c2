// What idempotencyd does instead of serving: programs that read a backup back, make a store out of
// one, or seal a store anew. No server may have the store open meanwhile.
//
// Each tells how far it is as a line of `terminal`, or, where that is null, in the log; writes its
// act to the audit; and returns the exit code. SIGTERM or Ctrl-C ends it at once: it may be begun
// anew.
#ifndef IDEMPOTENCY_SERVICE_PROCESS_STORE_PROGRAMS_H_
#define IDEMPOTENCY_SERVICE_PROCESS_STORE_PROGRAMS_H_

#include <iosfwd>

#include "service/process/setup.h"

namespace idempotency::service {

// --verify_backup: reads it whole.
int VerifyBackup(Setup* setup, std::ostream* terminal);

// --restore_backup: to an empty --data_dir.
int RestoreBackup(Setup* setup, std::ostream* terminal);

// --rewrap: seals what is stored with the current response key.
int Rewrap(Setup* setup, std::ostream* terminal);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PROCESS_STORE_PROGRAMS_H_
