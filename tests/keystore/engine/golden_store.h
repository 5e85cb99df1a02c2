// A store as a version left it, and what has to be read in it for ever.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_GOLDEN_STORE_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_GOLDEN_STORE_H_

#include <string>

#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {

// The key that responses of a sealed store are sealed with; AddKey makes it.
inline constexpr char kGoldenKey[] = "golden";

// Makes one in the fixture's data_dir, closed, as the service leaves it when it stops.
void MakeGoldenStore(RocksDbFixture& fixture, bool sealed);

// Makes one that has given its last fencing token, to careful/acct_1/open, and whose record
// careful/acct_1/damaged cannot be read.
void MakeWornStore(RocksDbFixture& fixture);

// A line for each record, in the order of the keys: what callers and operators depend on. One that
// cannot be read is "UNREADABLE".
std::string Describe(Engine& engine);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_GOLDEN_STORE_H_
