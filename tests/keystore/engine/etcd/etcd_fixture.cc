#include "tests/keystore/engine/etcd/etcd_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "keystore/codec/key_codec.h"
#include "keystore/engine/etcd/etcd_requests.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

// What is slow is not wrong: only a test that is about that sets less.
constexpr core::Duration kCallTimeout = std::chrono::seconds(60);

std::string NextPrefix() {
  static std::atomic<int> next{0};
  return "test/" + std::to_string(next++) + "/";
}

}  // namespace

EtcdCluster& SharedEtcd() {
  static EtcdCluster cluster(1);
  return cluster;
}

EtcdFixture::EtcdFixture(EtcdCluster* cluster) : surroundings_(std::make_shared<Surroundings>()) {
  surroundings_->SetNow(core::At(kStart));
  etcd.endpoints = cluster->endpoints();
  etcd.prefix = NextPrefix();
  etcd.call_timeout = kCallTimeout;
  // Tests say when.
  etcd.sweep_interval = core::Duration::zero();
  options.engine = "etcd";
  options.now = [surroundings = surroundings_] { return surroundings->now(); };
  options.log = [surroundings = surroundings_](int level, std::string_view line) {
    surroundings->Log(level, line);
  };
  options.random_bytes = [](char* bytes, size_t size) { std::fill_n(bytes, size, 'r'); };
}

std::unique_ptr<EtcdEngine> EtcdFixture::Open() {
  absl::Status status;
  std::unique_ptr<EtcdEngine> opened;
  const bool answers = BecomesTrue([&] {
    auto engine = EtcdEngine::Open(options, etcd);
    status = engine.status();
    if (engine.ok()) opened = *std::move(engine);
    return status.ok();
  });
  EXPECT_TRUE(answers) << "etcd does not answer: " << status;
  return opened;
}

EtcdClient& EtcdFixture::client() {
  if (client_ == nullptr) client_ = *EtcdClient::Open(etcd, options.log);
  return *client_;
}

void EtcdFixture::Put(const std::string& key, const std::string& value) {
  etcdserverpb::TxnRequest request;
  AddPut(key, value, request.mutable_success());
  const auto response = client().WriteNow(std::move(request));
  EXPECT_TRUE(response.ok()) << response.status();
}

void EtcdFixture::Remove(const std::string& key) {
  etcdserverpb::TxnRequest request;
  AddDelete(key, request.mutable_success());
  const auto response = client().WriteNow(std::move(request));
  EXPECT_TRUE(response.ok()) << response.status();
}

void EtcdFixture::RemoveAll() {
  etcdserverpb::TxnRequest request;
  AddDelete(etcd.prefix, request.mutable_success());
  request.mutable_success(0)->mutable_request_delete_range()->set_range_end(PrefixEnd(etcd.prefix));
  const auto response = client().WriteNow(std::move(request));
  EXPECT_TRUE(response.ok()) << response.status();
}

std::vector<std::string> EtcdFixture::Keys() {
  etcdserverpb::TxnRequest request;
  AddRangeOne(etcd.prefix, &request);
  request.mutable_success(0)->mutable_request_range()->set_range_end(PrefixEnd(etcd.prefix));
  const auto response = client().ReadNow(std::move(request));
  EXPECT_TRUE(response.ok()) << response.status();
  std::vector<std::string> keys;
  if (!response.ok()) return keys;
  for (const auto& found : response->responses(0).response_range().kvs()) {
    keys.push_back(found.key().substr(etcd.prefix.size()));
  }
  return keys;
}

}  // namespace idempotency::keystore
