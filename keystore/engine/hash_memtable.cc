#include "keystore/engine/hash_memtable.h"

#include <rocksdb/slice.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::keystore {
namespace {

using rocksdb::MemTableRep;
using rocksdb::Slice;

// Sequence number and type, at the end of every internal key.
constexpr size_t kTrailerBytes = 8;
// A record and its key take about so much; an open bucket a key, or nearly.
constexpr size_t kTypicalEntryBytes = 256;
constexpr size_t kMinBuckets = 256;

// Before each entry, in the memtable's own memory.
struct Node {
  // Of the same bucket, the newest first. Set before the node can be seen, and never again.
  const Node* next = nullptr;
  // Written before this one, in any bucket.
  const Node* earlier = nullptr;

  char* entry() { return reinterpret_cast<char*>(this + 1); }
  const char* entry() const { return reinterpret_cast<const char*>(this + 1); }
};

// The internal key of an entry.
Slice InternalKey(const char* entry) {
  uint32_t size = 0;
  auto byte = reinterpret_cast<const unsigned char*>(entry);
  for (unsigned shift = 0;; shift += 7, ++byte) {
    size |= uint32_t{*byte & 0x7fU} << shift;
    if (*byte < 0x80) break;
  }
  return {reinterpret_cast<const char*>(byte + 1), size};
}

std::string_view UserKeyOf(const Slice& internal_key) {
  return {internal_key.data(), internal_key.size() - kTrailerBytes};
}

using Entries = std::vector<const char*>;

class HashMemtable final : public MemTableRep {
 public:
  HashMemtable(const KeyComparator& compare, rocksdb::Allocator* allocator, size_t buckets)
      : MemTableRep(allocator), compare_(compare), buckets_(buckets) {}

  rocksdb::KeyHandle Allocate(size_t size, char** entry) override {
    // The memtable gives bytes at any address.
    char* memory = nullptr;
    MemTableRep::Allocate(size + sizeof(Node) + alignof(Node) - 1, &memory);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    memory += (alignof(Node) - address % alignof(Node)) % alignof(Node);
    auto* const node = new (memory) Node;
    *entry = node->entry();
    return node;
  }

  void Insert(rocksdb::KeyHandle handle) override {
    auto* const node = static_cast<Node*>(handle);
    std::atomic<const Node*>& bucket = BucketOf(UserKeyOf(InternalKey(node->entry())));
    node->next = bucket.load(std::memory_order_relaxed);
    node->earlier = newest_.load(std::memory_order_relaxed);
    bucket.store(node, std::memory_order_release);
    newest_.store(node, std::memory_order_release);
  }

  bool Contains(const char* entry) const override {
    for (const Node* at = Find(UserKeyOf(InternalKey(entry))); at != nullptr; at = at->next) {
      if (compare_(at->entry(), entry) == 0) return true;
    }
    return false;
  }

  // Beside what the memtable has given.
  size_t ApproximateMemoryUsage() override { return buckets_.size() * sizeof(buckets_[0]); }

  Iterator* GetIterator(rocksdb::Arena* /*arena*/) override {
    std::shared_ptr<const Entries> sorted = Sorted();
    absl::MutexLock lock(&mutex_);
    return new (iterators_.emplace_back().bytes) SortedIterator(compare_, std::move(sorted));
  }

  // What MemTableRep::Get asks for, and never gives back: a thread looks up one key at a time.
  Iterator* GetDynamicPrefixIterator(rocksdb::Arena* /*arena*/) override {
    alignas(KeyIterator) static thread_local char memory[sizeof(KeyIterator)];
    return new (memory) KeyIterator(*this);
  }

 private:
  // Where an iterator is made. RocksDB destroys iterators and may give back their memory to an
  // arena of its own, which is not ours to use: theirs stays until the memtable goes.
  class KeptIterator : public Iterator {
   public:
    static void* operator new(size_t, void* memory) { return memory; }
    static void operator delete(void*) {}
  };

  // All entries in order, as they were when it was made. Later ones have higher sequence numbers
  // than whoever reads through it may see.
  class SortedIterator final : public KeptIterator {
   public:
    SortedIterator(const KeyComparator& compare, std::shared_ptr<const Entries> entries)
        : compare_(compare), entries_(std::move(entries)), at_(entries_->size()) {}

    bool Valid() const override { return at_ < entries_->size(); }
    const char* key() const override { return (*entries_)[at_]; }
    void Next() override { ++at_; }
    // Before the first there is nothing, as behind the last.
    void Prev() override { at_ = at_ == 0 ? entries_->size() : at_ - 1; }
    void Seek(const Slice& internal_key, const char* /*entry*/) override {
      at_ = FirstNotBefore(internal_key);
    }
    void SeekForPrev(const Slice& internal_key, const char* /*entry*/) override {
      at_ = FirstNotBefore(internal_key);
      const bool equal = Valid() && compare_(key(), internal_key) == 0;
      if (!equal) Prev();
    }
    void SeekToFirst() override { at_ = 0; }
    void SeekToLast() override {
      at_ = entries_->size();
      Prev();
    }

   private:
    size_t FirstNotBefore(const Slice& internal_key) const {
      const auto found = std::lower_bound(
          entries_->begin(), entries_->end(), internal_key,
          [this](const char* entry, const Slice& key) { return compare_(entry, key) < 0; });
      return static_cast<size_t>(found - entries_->begin());
    }

    const KeyComparator& compare_;
    const std::shared_ptr<const Entries> entries_;
    size_t at_;
  };

  // The entries of one user key, the newest first; only for MemTableRep::Get.
  class KeyIterator final : public KeptIterator {
   public:
    explicit KeyIterator(const HashMemtable& table) : table_(table) {}

    bool Valid() const override { return at_ != nullptr; }
    const char* key() const override { return at_->entry(); }
    void Next() override { SkipTo(at_->next); }
    void Seek(const Slice& internal_key, const char* /*entry*/) override {
      user_key_ = UserKeyOf(internal_key);
      SkipTo(table_.Find(user_key_));
      // Whoever reads an older state does not see what is newer.
      while (at_ != nullptr && table_.compare_(at_->entry(), internal_key) < 0) Next();
    }
    void Prev() override { at_ = nullptr; }
    void SeekForPrev(const Slice&, const char*) override { at_ = nullptr; }
    void SeekToFirst() override { at_ = nullptr; }
    void SeekToLast() override { at_ = nullptr; }

   private:
    void SkipTo(const Node* node) {
      while (node != nullptr && UserKeyOf(InternalKey(node->entry())) != user_key_) {
        node = node->next;
      }
      at_ = node;
    }

    const HashMemtable& table_;
    std::string_view user_key_;
    const Node* at_ = nullptr;
  };

  struct alignas(SortedIterator) IteratorMemory {
    char bytes[sizeof(SortedIterator)];
  };

  std::atomic<const Node*>& BucketOf(std::string_view user_key) {
    return buckets_[absl::HashOf(user_key) & (buckets_.size() - 1)];
  }
  // The first node of the bucket.
  const Node* Find(std::string_view user_key) const {
    return buckets_[absl::HashOf(user_key) & (buckets_.size() - 1)].load(std::memory_order_acquire);
  }

  // All entries, in order: those of the last time, and what has been written since.
  std::shared_ptr<const Entries> Sorted() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const Node* const newest = newest_.load(std::memory_order_acquire);
    if (newest == sorted_up_to_) return sorted_;
    const auto before = [this](const char* a, const char* b) { return compare_(a, b) < 0; };
    Entries added;
    for (const Node* at = newest; at != sorted_up_to_; at = at->earlier) {
      added.push_back(at->entry());
    }
    std::sort(added.begin(), added.end(), before);
    auto all = std::make_shared<Entries>();
    all->reserve(sorted_->size() + added.size());
    std::merge(sorted_->begin(), sorted_->end(), added.begin(), added.end(),
               std::back_inserter(*all), before);
    sorted_ = std::move(all);
    sorted_up_to_ = newest;
    return sorted_;
  }

  const KeyComparator& compare_;
  std::vector<std::atomic<const Node*>> buckets_;  // as many as a power of two
  std::atomic<const Node*> newest_{nullptr};

  absl::Mutex mutex_;
  std::shared_ptr<const Entries> sorted_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Entries>();
  const Node* sorted_up_to_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::deque<IteratorMemory> iterators_ ABSL_GUARDED_BY(mutex_);
};

class HashMemtableFactory final : public rocksdb::MemTableRepFactory {
 public:
  explicit HashMemtableFactory(size_t buckets) : buckets_(buckets) {}

  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& compare,
                                 rocksdb::Allocator* allocator, const rocksdb::SliceTransform*,
                                 rocksdb::Logger*) override {
    return new HashMemtable(compare, allocator, buckets_);
  }
  const char* Name() const override { return "HashMemtableFactory"; }

 private:
  const size_t buckets_;
};

}  // namespace

std::shared_ptr<rocksdb::MemTableRepFactory> NewHashMemtableFactory(size_t memtable_bytes) {
  size_t buckets = kMinBuckets;
  while (buckets < memtable_bytes / kTypicalEntryBytes) buckets *= 2;
  return std::make_shared<HashMemtableFactory>(buckets);
}

}  // namespace idempotency::keystore
