// The memtable of record families: a hash table, sorted only when somebody goes through it.
//
// Every key is written at a random place of the order and read back one at a time, so that
// RocksDB's skip list costs a walk through cold memory for each write (a third of what a Reserve
// takes in the store) and nobody gains from the order before the memtable is flushed. Here a write
// links an entry to its bucket. A flush and a scan sort what was written since the last one; a
// memtable that takes no more writes is sorted once.
//
// Entries are RocksDB's own: varint32 length, internal key (user key, then 8 bytes of sequence and
// type), value; see rocksdb/memtablerep.h, which calls the format frozen.
//
// Thread safety: as RocksDB asks: one writer, and any number of readers beside it. Options must
// say allow_concurrent_memtable_write = false.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_HASH_MEMTABLE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_HASH_MEMTABLE_H_

#include <rocksdb/memtablerep.h>

#include <cstddef>
#include <memory>

namespace idempotency::keystore {

// memtable_bytes: how large the memtables will grow; their tables of buckets are made to fit.
std::shared_ptr<rocksdb::MemTableRepFactory> NewHashMemtableFactory(size_t memtable_bytes);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_HASH_MEMTABLE_H_
