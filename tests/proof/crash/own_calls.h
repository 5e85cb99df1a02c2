// What the engine writes without RocksDB: its epochs, its watermark. The linker sends its calls of
// the operating system here (--wrap, CMakeLists.txt); those below the directory of a hostile disk
// are that disk's, all others go their way.
//
// Thread safety: all functions may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_OWN_CALLS_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_OWN_CALLS_H_

#include <memory>
#include <string>

#include "tests/proof/crash/judged_disk.h"

namespace idempotency::proof {

// Between these two, calls on paths below `directory` are the disk's.
void TakeOwnCalls(const std::string& directory, std::shared_ptr<JudgedDisk> disk);
void LeaveOwnCalls(const std::string& directory);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_OWN_CALLS_H_
