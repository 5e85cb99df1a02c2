#include "keystore/engine/etcd/etcd_requests.h"

#include <utility>

namespace idempotency::keystore {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

Compare* AddCompare(std::string key, Compare::CompareTarget target, Compare::CompareResult result,
                    TxnRequest* txn) {
  Compare* const compare = txn->add_compare();
  compare->set_key(std::move(key));
  compare->set_target(target);
  compare->set_result(result);
  return compare;
}

Family FamilyOf(VersionParts::Kind kind) {
  return kind == VersionParts::Kind::kOpen ? Family::kOpen : Family::kFinished;
}

void CompareExpected(const EtcdLayout& layout, const EtcdWrite& write, TxnRequest* txn) {
  if (write.expected.kind == VersionParts::Kind::kAbsent) {
    CompareModRevision(layout.RecordKey(Family::kOpen, write.stored_key), 0, txn);
    CompareModRevision(layout.RecordKey(Family::kFinished, write.stored_key), 0, txn);
    return;
  }
  CompareModRevision(layout.RecordKey(FamilyOf(write.expected.kind), write.stored_key),
                     write.expected.revision, txn);
}

void AddRecord(const EtcdLayout& layout, const EtcdWrite& write, Family family, std::string value,
               TxnRequest* txn) {
  AddDelete(layout.RecordKey(OtherFamily(family), write.stored_key), txn->mutable_success());
  AddPut(layout.RecordKey(family, write.stored_key), std::move(value), txn->mutable_success());
  if (family == Family::kOpen) return;
  AddPut(layout.DueKey(write.due, write.stored_key), {}, txn->mutable_success());
}

// A write that is guarded by the absence before the key was made would win again, if nothing were
// left. It cannot, where the epoch is younger than the key: it compares an older one.
void AddErasure(const EtcdLayout& layout, const EtcdWrite& write, int64_t epoch_revision,
                TxnRequest* txn) {
  if (write.expected.kind == VersionParts::Kind::kAbsent) return;
  CompareCreatedBefore(layout.RecordKey(FamilyOf(write.expected.kind), write.stored_key),
                       epoch_revision, txn);
  AddDelete(layout.RecordKey(Family::kOpen, write.stored_key), txn->mutable_success());
  AddDelete(layout.RecordKey(Family::kFinished, write.stored_key), txn->mutable_success());
  TxnRequest* const young = txn->add_failure()->mutable_request_txn();
  CompareExpected(layout, write, young);
  AddRecord(layout, write, Family::kFinished, {}, young);
}

}  // namespace

void AddRangeOne(std::string key, TxnRequest* txn) {
  txn->add_success()->mutable_request_range()->set_key(std::move(key));
}

void AddPut(std::string key, std::string value,
            google::protobuf::RepeatedPtrField<etcdserverpb::RequestOp>* ops) {
  etcdserverpb::PutRequest* const put = ops->Add()->mutable_request_put();
  put->set_key(std::move(key));
  put->set_value(std::move(value));
}

void AddDelete(std::string key, google::protobuf::RepeatedPtrField<etcdserverpb::RequestOp>* ops) {
  ops->Add()->mutable_request_delete_range()->set_key(std::move(key));
}

void CompareModRevision(std::string key, int64_t revision, TxnRequest* txn) {
  AddCompare(std::move(key), Compare::MOD, Compare::EQUAL, txn)->set_mod_revision(revision);
}

void CompareCreatedBefore(std::string key, int64_t revision, TxnRequest* txn) {
  AddCompare(std::move(key), Compare::CREATE, Compare::LESS, txn)->set_create_revision(revision);
}

const etcdserverpb::KeyValue* KeyAt(const TxnResponse& response, int place) {
  if (place >= response.responses_size()) return nullptr;
  const etcdserverpb::RangeResponse& range = response.responses(place).response_range();
  return range.kvs_size() == 0 ? nullptr : &range.kvs(0);
}

void AddWrite(const EtcdLayout& layout, const EtcdWrite& write, int64_t epoch_revision,
              TxnRequest* commit) {
  TxnRequest* const txn = commit->add_success()->mutable_request_txn();
  CompareExpected(layout, write, txn);
  if (write.family) return AddRecord(layout, write, *write.family, write.value, txn);
  AddErasure(layout, write, epoch_revision, txn);
}

TxnRequest IdleRequest(const EtcdLayout& layout, size_t bytes) {
  TxnRequest request;
  CompareModRevision(layout.EpochKey(), -1, &request);
  AddPut(layout.EpochKey(), std::string(bytes, '\0'),
         request.add_success()->mutable_request_txn()->mutable_success());
  return request;
}

bool WasWritten(const TxnResponse& response, int place) {
  if (place >= response.responses_size()) return false;
  const TxnResponse& txn = response.responses(place).response_txn();
  if (txn.succeeded()) return true;
  // An erasure that had to leave a tombstone.
  return txn.responses_size() == 1 && txn.responses(0).response_txn().succeeded();
}

}  // namespace idempotency::keystore
