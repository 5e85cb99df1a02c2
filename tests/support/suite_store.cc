#include "tests/support/suite_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "keystore/engine/open_any_engine.h"
#include "keystore/engine/postgres/pg_connection.h"
#include "tests/support/becomes_true.h"
#include "tests/support/etcd_process.h"
#include "tests/support/postgres_process.h"

namespace idempotency::testing {
namespace {

// What is slow is not wrong.
constexpr core::Duration kCallTimeout = std::chrono::seconds(60);

EtcdCluster& TheEtcd() {
  static EtcdCluster cluster(1);
  return cluster;
}

PostgresServer& ThePostgres() {
  static PostgresServer server;
  return server;
}

// Over one connection: psql takes longer to start than most tests take.
void MakeSchema(const std::string& name) {
  static const auto connection = keystore::PgConnection::Connect(ThePostgres().UriOf("public"), {});
  ASSERT_TRUE(connection.ok()) << connection.status();
  const keystore::PgReply reply = (*connection)->Execute("CREATE SCHEMA " + name);
  ASSERT_TRUE(reply.ok()) << reply.failure->message;
}

std::string NextName() {
  static int stores = 0;
  return "suite_" + std::to_string(++stores);
}

}  // namespace

std::string SuiteEngineName() {
  const char* const name = std::getenv("IDEMPOTENCY_SUITE_ENGINE");
  return name == nullptr ? "memory" : name;
}

SuiteStore::SuiteStore() : name_(NextName()) {
  if (SuiteEngineName() != "postgres") return;
  MakeSchema(name_);
  postgres_uri_ = ThePostgres().UriOf(name_);
}

std::unique_ptr<keystore::Engine> SuiteStore::Open(const keystore::EngineOptions& options) {
  keystore::AnyEngineOptions any;
  any.engine = options;
  any.engine.engine = SuiteEngineName();
  if (any.engine.engine == "etcd") any.etcd.endpoints = TheEtcd().endpoints();
  any.etcd.prefix = name_ + "/";
  any.etcd.call_timeout = kCallTimeout;
  any.postgres.uri = postgres_uri_;
  // Each is a process of PostgreSQL's, and every test opens them anew.
  any.postgres.connections = 2;
  // There is one server, and tests move its clock to the millisecond.
  any.etcd.clock_skew = any.postgres.clock_skew = core::Duration::zero();
  std::unique_ptr<keystore::Engine> opened;
  absl::Status status;
  // etcd accepts connections a little before it answers.
  BecomesTrue([&] {
    auto engine = keystore::OpenAnyEngine(any);
    status = engine.status();
    if (engine.ok()) opened = *std::move(engine);
    return status.ok() || absl::IsInvalidArgument(status);
  });
  EXPECT_TRUE(status.ok()) << status;
  return opened;
}

}  // namespace idempotency::testing
