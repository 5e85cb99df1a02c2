// What is PostgreSQL's own: how it is opened, what fences late writes, what several engines on one
// database do to each other, and what goes on while the database does not.
#include "keystore/engine/postgres/postgres_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/postgres/postgres_hosts.h"
#include "keystore/engine/transfer/retirement.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/postgres/postgres_fixture.h"
#include "tests/keystore/engine/records.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool IsAbsent(const ReadEntry& entry) { return std::holds_alternative<core::Absent>(entry.stored); }

core::State StateOf(const ReadEntry& entry) {
  const auto* record = std::get_if<core::Record>(&entry.stored);
  return record == nullptr ? core::State{} : record->state;
}

// A row as the engine would store it; the bytes mean nothing.
PostgresRow RowOf(const core::Key& key, Version expected, std::string bytes = "a record") {
  return PostgresRow{
      .key = EncodeKey(key), .expected = expected, .state = 1, .record = std::move(bytes)};
}

std::vector<WriteOutcome> CommitOne(Engine& engine, const core::Key& key, Version expected,
                                    core::RecordPtr record) {
  return Commit(engine, {{.key = key, .expected = expected, .record = std::move(record)}});
}

class PostgresTest : public ::testing::Test {
 protected:
  // Of every record that there is, in a transaction that somebody else leaves open.
  std::unique_ptr<PgConnection> LockRecords() {
    auto holder = fixture_.Connect();
    EXPECT_TRUE(holder->Execute("BEGIN").ok());
    EXPECT_TRUE(holder->Execute("SELECT 1 FROM idempotency_records FOR UPDATE").ok());
    return holder;
  }

  PostgresFixture fixture_;
};

// --- Hosts ---------------------------------------------------------------------------------------

// What each host answers, in turn, and in which order they are asked.
absl::Status TryThree(const std::vector<absl::Status>& answers, KnownHost* known,
                      std::vector<size_t>* asked) {
  return TryHosts("host=a,b,c port=1,2,3", PgOptions{}, known, [&](const PgOptions& one) {
    asked->push_back(*one.only_host);
    return answers.at(*one.only_host);
  });
}

TEST(PostgresHostsTest, AHostThatIsSetUpWronglyDoesNotStandInFrontOfTheOne) {
  const absl::Status another = absl::AbortedError("left behind");
  const absl::Status wrong = absl::FailedPreconditionError("synchronous_commit");
  KnownHost known = kNoHost;
  std::vector<size_t> asked;
  EXPECT_TRUE(TryThree({another, wrong, absl::OkStatus()}, &known, &asked).ok());
  EXPECT_THAT(asked, ElementsAre(0, 1, 2));
  EXPECT_EQ(known, 2u);
  asked.clear();
  EXPECT_TRUE(TryThree({another, wrong, absl::OkStatus()}, &known, &asked).ok());
  EXPECT_THAT(asked, ElementsAre(2));
  // Where it is none, what can be mended is said.
  asked.clear();
  EXPECT_EQ(TryThree({another, wrong, absl::UnavailableError("gone")}, &known, &asked), wrong);
  EXPECT_THAT(asked, ElementsAre(2, 0, 1));
}

// --- Opening -------------------------------------------------------------------------------------

TEST_F(PostgresTest, RefusesServersThatWouldLoseWhatTheyAcknowledge) {
  const std::string uri = fixture_.postgres.uri;
  const std::string end = "'";  // of the options
  for (const char* value : {"off", "local", "remote_write"}) {
    fixture_.postgres.uri = uri.substr(0, uri.size() - 1) + " -csynchronous_commit=" + value + end;
    const absl::Status status = fixture_.TryOpen();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << value;
    EXPECT_THAT(status.ToString(), HasSubstr("synchronous_commit")) << value;
  }
  fixture_.postgres.uri =
      uri.substr(0, uri.size() - 1) + " -csynchronous_commit=remote_apply" + end;
  EXPECT_TRUE(fixture_.TryOpen().ok());
}

TEST_F(PostgresTest, StaysDurableWhateverTheServerIsToldMeanwhile) {
  const auto engine = fixture_.Open();
  SlotName slot;
  const auto session = fixture_.OpenSession(&slot);
  fixture_.server().Sql("ALTER SYSTEM SET synchronous_commit = off");
  fixture_.server().Sql("SELECT pg_reload_conf()");
  ASSERT_TRUE(BecomesTrue([&] { return fixture_.Sql("SHOW synchronous_commit") == "off"; }));
  EXPECT_EQ(session->connection().Execute("SHOW synchronous_commit").result.Bytes(0, 0), "on");
  fixture_.server().Sql("ALTER SYSTEM RESET synchronous_commit");
  fixture_.server().Sql("SELECT pg_reload_conf()");
  ASSERT_TRUE(BecomesTrue([&] { return fixture_.Sql("SHOW synchronous_commit") == "on"; }));
}

TEST_F(PostgresTest, RefusesSessionsThatMayNotWrite) {
  std::string& uri = fixture_.postgres.uri;
  uri = uri.substr(0, uri.size() - 1) + " -cdefault_transaction_read_only=on'";
  const absl::Status status = fixture_.TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("read-only"));
}

TEST_F(PostgresTest, SaysWhatIsWrongWithItsOptions) {
  fixture_.postgres.uri = "postgresql://user:secret@host/database?nonsense";
  absl::Status status = fixture_.TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), ::testing::Not(HasSubstr("secret")));
  fixture_.postgres.uri = "host=/nowhere";
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kUnavailable);
  fixture_.postgres.uri = "";
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PostgresTest, RefusesTablesOfAnotherVersion) {
  fixture_.Open();
  fixture_.Sql("UPDATE idempotency_meta SET schema_version = 2");
  const absl::Status status = fixture_.TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("version 2"));
}

TEST_F(PostgresTest, TellsARoleThatMayNotCreateTheTables) {
  fixture_.Sql("CREATE ROLE guest_" + fixture_.schema() + " LOGIN; GRANT USAGE ON SCHEMA " +
               fixture_.schema() + " TO guest_" + fixture_.schema());
  std::string& uri = fixture_.postgres.uri;
  uri.replace(uri.find("user=postgres"), 13, "user=guest_" + fixture_.schema());
  const absl::Status status = fixture_.TryOpen();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("CREATE on the schema"));
}

TEST_F(PostgresTest, SeveralMayCreateTheTablesAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> opened{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const absl::Status status = fixture_.TryOpen();
      EXPECT_TRUE(status.ok()) << status;
      if (status.ok()) ++opened;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened, 4);
}

// As a dump would bring it back: all numbers are those of long ago.
TEST_F(PostgresTest, VersionsAndTokensGoOnRisingAfterADumpIsRestored) {
  const core::Key key = PayKey("a");
  auto engine = fixture_.Open();
  const uint64_t token = Read(*engine, {})->token_floor;
  Store(*engine, key, PendingRecord(token));
  const Version version = ReadOne(*engine, key).version;
  engine.reset();
  // Nobody restores within the second in which the dump was made.
  ASSERT_TRUE(BecomesTrue([&] {
    return fixture_.Sql(
               "SELECT extract(epoch FROM clock_timestamp()) - 1577836800 > last_epoch + 1 "
               "FROM idempotency_meta") == "t";
  }));
  fixture_.Sql(
      "UPDATE idempotency_meta SET last_epoch = 3, token_base = 5; "
      "SELECT setval('idempotency_tokens', 2); DELETE FROM idempotency_records; "
      "DELETE FROM idempotency_slots");
  engine = fixture_.Open();
  const uint64_t floor = Read(*engine, {})->token_floor;
  EXPECT_GT(floor, token);
  Store(*engine, key, PendingRecord(floor));
  EXPECT_GT(ReadOne(*engine, key).version, version);
}

TEST_F(PostgresTest, ADatabaseThatWasRestoredFromADumpHasLostWhatCameAfter) {
  auto engine = fixture_.Open();
  Store(*engine, PayKey("pending"), PendingRecord(1));
  Store(*engine, PayKey("complete"), CompleteRecord(1));
  EXPECT_FALSE(core::IsSet(engine->traits().lost_before));
  engine.reset();
  // All that a dump does not bring along.
  fixture_.Sql("UPDATE idempotency_meta SET origin = '1/2/3'");
  engine = fixture_.Open();
  EXPECT_EQ(engine->traits().lost_before, kStart);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("pending"))), core::State::kUnresolved);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("complete"))), core::State::kComplete);
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogWarning, "restored from a dump"));
  // Once; and it is not forgotten.
  Store(*engine, PayKey("later"), PendingRecord(1));
  engine.reset();
  fixture_.surroundings().SetNow(core::At(kStart + std::chrono::hours(1)));
  engine = fixture_.Open();
  EXPECT_EQ(engine->traits().lost_before, kStart);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("later"))), core::State::kPending);
}

// --- Keys of sealed responses --------------------------------------------------------------------

class SealedPostgresTest : public PostgresTest {
 protected:
  SealedPostgresTest() {
    fixture_.options.random_bytes = keys_.options.engine.random_bytes;
    SealWith("k1");
  }

  void SealWith(const std::string& id) {
    keys_.AddKey(id);
    keys_.MakeCurrent(id);
    fixture_.options.response_keys = keys_.options.engine.response_keys;
  }
  std::string Needed() {
    return fixture_.Sql("SELECT string_agg(id, ' ' ORDER BY id) FROM idempotency_response_keys");
  }

  // For its key files; no store is opened there.
  RocksDbFixture keys_;
};

TEST_F(SealedPostgresTest, RemembersAKeyBeforeAnythingIsSealedWithIt) {
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(Needed(), "k1");
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(Needed(), "k1");
  SealWith("k2");
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(Needed(), "k1 k2");
}

TEST_F(SealedPostgresTest, DoesNotOpenWithoutAKeyThatItNeeds) {
  Store(*fixture_.Open(), PayKey("a"), CompleteRecord());
  SealWith("k2");
  ASSERT_NE(fixture_.Open(), nullptr);
  keys_.RemoveKey("k1");
  const absl::Status refused = fixture_.TryOpen();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("k1.key"));
  EXPECT_THAT(refused.ToString(), HasSubstr("--lost_response_keys"));
  // As little as without any.
  fixture_.options.response_keys.clear();
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kFailedPrecondition);
  fixture_.options.lost_response_keys = {"k2"};
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kFailedPrecondition);

  fixture_.options.lost_response_keys = {"k2", "k1"};
  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  const ReadEntry entry = ReadOne(*engine, PayKey("a"));
  ASSERT_EQ(StateOf(entry), core::State::kComplete);
  EXPECT_TRUE(std::get<core::Record>(entry.stored).response.body_omitted);
}

TEST_F(SealedPostgresTest, SettlesNoLossWithoutAKeyThatItNeeds) {
  Store(*fixture_.Open(), PayKey("a"), PendingRecord(1));
  fixture_.Sql("UPDATE idempotency_meta SET origin = '1/2/3'");
  keys_.RemoveKey("k1");
  SealWith("k2");
  EXPECT_EQ(fixture_.TryOpen().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fixture_.Sql("SELECT state FROM idempotency_records"), "1");
  keys_.AddKey("k1");
  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("a"))), core::State::kUnresolved);
}

TEST_F(SealedPostgresTest, SeveralMayBeginToSealAtOnce) {
  // Tables of before the keys were remembered.
  const std::string directory = std::exchange(fixture_.options.response_keys, "");
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(fixture_.Sql("SELECT to_regclass('idempotency_response_keys') IS NULL"), "t");
  fixture_.options.response_keys = directory;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const absl::Status status = fixture_.TryOpen();
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Needed(), "k1");
}

// Whoever has read that nothing more is needed looks again behind its own id.
TEST_F(SealedPostgresTest, SeesAKeyThatCameWhileItRememberedItsOwn) {
  ASSERT_NE(fixture_.Open(), nullptr);
  SealWith("k2");
  const auto holder = fixture_.Connect();
  ASSERT_TRUE(holder->Execute("BEGIN").ok());
  ASSERT_TRUE(
      holder->Execute("LOCK TABLE idempotency_response_keys IN SHARE ROW EXCLUSIVE MODE").ok());
  absl::Status opened;
  std::thread opener([&] { opened = fixture_.TryOpen(); });
  fixture_.AwaitBlocked("INSERT INTO idempotency_response_keys");
  EXPECT_TRUE(holder->Execute("INSERT INTO idempotency_response_keys VALUES ('theirs')").ok());
  EXPECT_TRUE(holder->Execute("COMMIT").ok());
  opener.join();
  EXPECT_EQ(opened.code(), absl::StatusCode::kFailedPrecondition) << opened;
  EXPECT_THAT(opened.ToString(), HasSubstr("theirs.key"));
  // The other may have seen it, and have begun with the same key.
  EXPECT_EQ(Needed(), "k1 k2 theirs");
}

TEST_F(SealedPostgresTest, ARoleThatMayMakeNoTableIsToldWhatItNeeds) {
  // Tables of before the keys were remembered.
  const std::string directory = std::exchange(fixture_.options.response_keys, "");
  ASSERT_NE(fixture_.Open(), nullptr);
  fixture_.options.response_keys = directory;
  const std::string guest = "guest_" + fixture_.schema();
  fixture_.Sql("CREATE ROLE " + guest + " LOGIN; GRANT USAGE ON SCHEMA " + fixture_.schema() +
               " TO " + guest + "; GRANT ALL ON ALL TABLES IN SCHEMA " + fixture_.schema() +
               " TO " + guest + "; GRANT ALL ON ALL SEQUENCES IN SCHEMA " + fixture_.schema() +
               " TO " + guest);
  const std::string owners = fixture_.postgres.uri;
  std::string guests = owners;
  guests.replace(guests.find("user=postgres"), 13, "user=" + guest);
  const auto refused = [&](const char* what) {
    fixture_.postgres.uri = guests;
    const absl::Status status = fixture_.TryOpen();
    fixture_.postgres.uri = owners;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(what));
    EXPECT_THAT(status.ToString(), HasSubstr("grant SELECT, INSERT on idempotency_response_keys"));
  };
  refused("cannot make the table");
  ASSERT_NE(fixture_.Open(), nullptr);
  refused("cannot read");
  fixture_.Sql("GRANT SELECT ON idempotency_response_keys TO " + guest);
  SealWith("k2");
  refused("cannot note");
  fixture_.Sql("GRANT INSERT ON idempotency_response_keys TO " + guest);
  fixture_.postgres.uri = guests;
  EXPECT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(Needed(), "k1 k2");
}

class PostgresRestored : public PostgresTest {
 protected:
  // Puts a copy of the records in their place, as a dump would, while engines have the database
  // open.
  void Restore() {
    fixture_.Sql(
        "ALTER TABLE idempotency_records RENAME TO before; "
        "CREATE TABLE idempotency_records (LIKE before INCLUDING ALL); "
        "INSERT INTO idempotency_records SELECT * FROM before; DROP TABLE before");
  }
};

TEST_F(PostgresRestored, AnEngineThatHasTheDatabaseOpenEndsAtItsNextLook) {
  auto engine = fixture_.Open();
  Store(*engine, PayKey("pending"), PendingRecord(1));
  ASSERT_TRUE(engine->Upkeep().ok());
  Restore();
  EXPECT_EQ(engine->Upkeep().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine->pressure().alive);
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogError, "restored from a dump"));
  EXPECT_EQ(Read(*engine, {PayKey("pending")}).status().code(), absl::StatusCode::kUnavailable);
  engine.reset();
  engine = fixture_.Open();
  EXPECT_EQ(engine->traits().lost_before, kStart);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("pending"))), core::State::kUnresolved);
  EXPECT_TRUE(engine->Upkeep().ok());
}

TEST_F(PostgresRestored, AnEngineThatConnectsAgainEndsThoughAnotherHasSettledTheLoss) {
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("pending"), PendingRecord(1));
  Restore();
  fixture_.Sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE application_name = 'idempotencyd'");
  const auto other = fixture_.Open();
  EXPECT_EQ(StateOf(ReadOne(*other, PayKey("pending"))), core::State::kUnresolved);
  EXPECT_EQ(Read(*engine, {PayKey("pending")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine->pressure().alive);
  EXPECT_TRUE(other->Upkeep().ok());
  EXPECT_TRUE(other->pressure().alive);
}

TEST_F(PostgresRestored, AnOperatorMaySayThatNothingIsLost) {
  const auto engine = fixture_.Open();
  Restore();
  fixture_.Sql("UPDATE idempotency_meta SET origin = ''");
  EXPECT_TRUE(engine->Upkeep().ok());
  EXPECT_TRUE(engine->pressure().alive);
}

// --- Late writes ---------------------------------------------------------------------------------

TEST_F(PostgresTest, AWriteThatComesAfterItsSlotWasFencedDoesNothing) {
  const auto engine = fixture_.Open();
  SlotName late_slot;
  SlotName other_slot;
  const auto late = fixture_.OpenSession(&late_slot);
  const auto other = fixture_.OpenSession(&other_slot);
  ASSERT_EQ(late->Write({RowOf(PayKey("a"), 0)}).kind, WriteReply::Kind::kDone);
  ASSERT_TRUE(other->Fence(late_slot).ok());
  EXPECT_EQ(late->Write({RowOf(PayKey("b"), 0)}).kind, WriteReply::Kind::kFenced);
  EXPECT_FALSE(late->usable());
  EXPECT_TRUE(IsAbsent(ReadOne(*engine, PayKey("b"))));
  // The same by whoever opens the slot anew.
  const auto later = fixture_.OpenSession(&late_slot);
  const auto latest = fixture_.OpenSession(&late_slot);
  EXPECT_EQ(later->Write({RowOf(PayKey("b"), 0)}).kind, WriteReply::Kind::kFenced);
  EXPECT_EQ(latest->Write({RowOf(PayKey("b"), 0)}).kind, WriteReply::Kind::kDone);
}

TEST_F(PostgresTest, NothingIsRemovedAsExpiredByASlotThatWasTakenAway) {
  const auto engine = fixture_.Open();
  const core::Key key = PayKey("a");
  Store(*engine, key, CompleteRecord(1));
  const PostgresRow row = RowOf(key, ReadOne(*engine, key).version);
  SlotName late_slot;
  SlotName other_slot;
  const auto late = fixture_.OpenSession(&late_slot);
  const auto other = fixture_.OpenSession(&other_slot);
  EXPECT_EQ(*late->Postpone({row}), 1u);
  ASSERT_TRUE(other->Fence(late_slot).ok());
  EXPECT_EQ(late->Postpone({row}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(late->usable());
  EXPECT_EQ(late->Replace({row}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(late->Remove({row}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StateOf(ReadOne(*engine, key)), core::State::kComplete);
  EXPECT_EQ(*other->Replace({row}), 1u);
  EXPECT_EQ(*other->Remove({row}), 1u);
}

TEST_F(PostgresTest, AFenceWaitsForTheWriteThatIsUnderWay) {
  const auto engine = fixture_.Open();
  const core::Key key = PayKey("a");
  Store(*engine, key, PendingRecord(1));
  const Version version = ReadOne(*engine, key).version;
  const auto holder = LockRecords();

  SlotName late_slot;
  SlotName other_slot;
  const auto late = fixture_.OpenSession(&late_slot);
  const auto other = fixture_.OpenSession(&other_slot);
  WriteReply reply;
  std::thread writer([&] { reply = late->Write({RowOf(key, version)}); });
  fixture_.AwaitBlocked("WITH fence");
  std::atomic<bool> fenced{false};
  std::thread fencer([&] {
    EXPECT_TRUE(other->Fence(late_slot).ok());
    fenced = true;
  });
  fixture_.AwaitBlocked("UPDATE idempotency_slots");
  EXPECT_FALSE(fenced);
  ASSERT_TRUE(holder->Execute("COMMIT").ok());
  writer.join();
  fencer.join();
  EXPECT_EQ(reply.kind, WriteReply::Kind::kDone);
  EXPECT_NE(ReadOne(*engine, key).version, version);
}

// The whole of it: the engine loses the connection while its write waits.
TEST_F(PostgresTest, AWriteWhoseConnectionBreaksIsUnknownAndSettledByTheNextRead) {
  const auto engine = fixture_.Open();
  const core::Key key = PayKey("a");
  Store(*engine, key, PendingRecord(1));
  const Version version = ReadOne(*engine, key).version;
  const auto holder = LockRecords();
  std::vector<WriteOutcome> outcomes;
  std::thread writer([&] { outcomes = CommitOne(*engine, key, version, CompleteRecord(1)); });
  fixture_.AwaitBlocked("WITH fence");
  ASSERT_TRUE(
      holder
          ->Execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND position('WITH fence' in query) > 0")
          .ok());
  writer.join();
  EXPECT_THAT(outcomes, ElementsAre(WriteOutcome::kUnknown));
  ASSERT_TRUE(holder->Execute("COMMIT").ok());
  EXPECT_TRUE(engine->pressure().alive);
  EXPECT_EQ(ReadOne(*engine, key).version, version);
  EXPECT_THAT(CommitOne(*engine, key, version, CompleteRecord(1)),
              ElementsAre(WriteOutcome::kCommitted));
}

// A doubt is settled by whichever connection reads, also while the old statement runs on.
TEST_F(PostgresTest, AReadOfADoubtfulKeyFailsWhileTheOldWriteRunsOn) {
  const core::Key key = PayKey("a");
  Version version = 0;
  {
    const auto engine = fixture_.Open();
    Store(*engine, key, PendingRecord(1));
    version = ReadOne(*engine, key).version;
  }
  // Completions take as long as somebody says, and no lock is waited for that could time out.
  fixture_.Sql(
      "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      // It goes on though its client has gone.
      "PERFORM set_config('client_connection_check_interval', '0', true); "
      "WHILE NOT pg_try_advisory_xact_lock_shared(1) LOOP PERFORM pg_sleep(0.01); END LOOP; "
      "RETURN new; END $$; "
      "CREATE TRIGGER dawdle BEFORE UPDATE ON idempotency_records "
      "FOR EACH ROW WHEN (new.state = 2) EXECUTE FUNCTION dawdle()");
  const auto holder = fixture_.Connect();
  ASSERT_TRUE(holder->Execute("SELECT pg_advisory_lock(1)").ok());
  // Far more than anything takes that is not held up.
  fixture_.postgres.reply_timeout = std::chrono::seconds(10);
  const auto engine = fixture_.Open();
  // Unanswered for too long.
  EXPECT_THAT(CommitOne(*engine, key, version, CompleteRecord(1)),
              ElementsAre(WriteOutcome::kUnknown));
  EXPECT_EQ(Read(*engine, {key}).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(holder->Execute("SELECT pg_advisory_unlock(1)").ok());
  // It went on, and took effect, before the first read that was answered.
  const absl::StatusOr<ReadResult> result = ReadWhenAnswered(*engine, key);
  ASSERT_TRUE(result.ok()) << result.status();
  const Version settled = result->entries[0].version;
  EXPECT_NE(settled, version);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ReadOne(*engine, key).version, settled);
}

TEST_F(PostgresTest, NothingHasAVersionOnceItWasErased) {
  const auto one = fixture_.Open();
  const auto other = fixture_.Open();
  const core::Key key = PayKey("a");
  ASSERT_EQ(ReadOne(*one, key).version, 0u);
  Store(*other, key, PendingRecord(1));
  Store(*other, key, nullptr);
  EXPECT_THAT(CommitOne(*one, key, 0, PendingRecord(2)), ElementsAre(WriteOutcome::kLostRace));
  const ReadEntry nothing = ReadOne(*one, key);
  EXPECT_TRUE(IsAbsent(nothing));
  EXPECT_NE(nothing.version, 0u);
  EXPECT_THAT(CommitOne(*one, key, nothing.version, PendingRecord(2)),
              ElementsAre(WriteOutcome::kCommitted));
}

// A process that was suspended for hours between a read and its write: meanwhile the key may have
// come and gone, and nothing is left that would say so.
TEST_F(PostgresTest, WhatWasFoundAbsentBeforeASessionWasLostIsReadAgain) {
  fixture_.postgres.connections = 1;
  const auto engine = fixture_.Open();
  const core::Key key = PayKey("a");
  ASSERT_EQ(ReadOne(*engine, key).version, 0u);
  fixture_.Sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE application_name = 'idempotencyd' AND query LIKE '%idempotency_tokens%'");
  ReadOne(*engine, PayKey("other"));
  EXPECT_THAT(CommitOne(*engine, key, 0, PendingRecord(1)), ElementsAre(WriteOutcome::kLostRace));
  ASSERT_EQ(ReadOne(*engine, key).version, 0u);
  EXPECT_THAT(CommitOne(*engine, key, 0, PendingRecord(1)), ElementsAre(WriteOutcome::kCommitted));
}

TEST_F(PostgresTest, AWriteThatIsRefusedFailsTheNextReadOfItsKeyAndNoMore) {
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  fixture_.Sql("ALTER TABLE idempotency_records ADD CONSTRAINT no_complete CHECK (state <> 2)");
  const Version version = ReadOne(*engine, PayKey("a")).version;
  EXPECT_THAT(CommitOne(*engine, PayKey("a"), version, CompleteRecord(1)),
              ElementsAre(WriteOutcome::kLostRace));
  EXPECT_TRUE(Read(*engine, {PayKey("b")}).ok());
  EXPECT_EQ(Read(*engine, {PayKey("a")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReadOne(*engine, PayKey("a")).version, version);
}

// It went round, and everything behind it waited.
TEST_F(PostgresTest, ARecordThatSomebodyHasLockedForLongIsRefused) {
  const auto engine = fixture_.Open();
  const core::Key key = PayKey("a");
  Store(*engine, key, PendingRecord(1));
  const Version version = ReadOne(*engine, key).version;
  const auto holder = LockRecords();
  EXPECT_THAT(CommitOne(*engine, key, version, CompleteRecord(1)),
              ElementsAre(WriteOutcome::kLostRace));
  EXPECT_TRUE(Read(*engine, {PayKey("b")}).ok());
  EXPECT_EQ(Read(*engine, {key}).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(holder->Execute("COMMIT").ok());
  EXPECT_EQ(ReadOne(*engine, key).version, version);
  EXPECT_THAT(CommitOne(*engine, key, version, CompleteRecord(1)),
              ElementsAre(WriteOutcome::kCommitted));
}

TEST_F(PostgresTest, ABatchThatIsRolledBackAgainAndAgainIsRefused) {
  const auto engine = fixture_.Open();
  fixture_.Sql(
      "CREATE SEQUENCE tries; CREATE FUNCTION roll_back() RETURNS trigger LANGUAGE plpgsql AS $$ "
      "BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$; "
      "CREATE TRIGGER roll_back BEFORE INSERT ON idempotency_records "
      "FOR EACH ROW EXECUTE FUNCTION roll_back()");
  EXPECT_THAT(CommitOne(*engine, PayKey("a"), 0, PendingRecord(1)),
              ElementsAre(WriteOutcome::kLostRace));
  EXPECT_EQ(fixture_.Sql("SELECT last_value FROM tries"), "5");
  EXPECT_EQ(Read(*engine, {PayKey("a")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsAbsent(ReadOne(*engine, PayKey("a"))));
}

// Where new keys are refused, there may be no write that would find room again.
TEST_F(PostgresTest, AFullDiskIsBelievedUntilTheNextUpkeep) {
  const auto engine = fixture_.Open();
  fixture_.Sql(
      "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ "
      "BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$; "
      "CREATE TRIGGER fill BEFORE INSERT ON idempotency_records "
      "FOR EACH ROW EXECUTE FUNCTION fill()");
  EXPECT_THAT(CommitOne(*engine, PayKey("a"), 0, PendingRecord(1)),
              ElementsAre(WriteOutcome::kLostRace));
  EXPECT_TRUE(engine->pressure().full);
  fixture_.Sql("DROP TRIGGER fill ON idempotency_records");
  EXPECT_TRUE(engine->pressure().full);
  ASSERT_TRUE(engine->Upkeep().ok());
  EXPECT_FALSE(engine->pressure().full);
}

TEST_F(PostgresTest, AnInstanceWhoseSlotsWereTakenOpensOthers) {
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  // As another does where this one was not seen for ten minutes.
  fixture_.Sql("DELETE FROM idempotency_instances; DELETE FROM idempotency_slots");
  Store(*engine, PayKey("b"), PendingRecord(1));
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("b"))), core::State::kPending);
  ASSERT_TRUE(engine->Upkeep().ok());
  EXPECT_EQ(fixture_.Sql("SELECT count(*) FROM idempotency_instances"), "1");
}

TEST_F(PostgresTest, UpkeepTakesTheSlotsOfThoseThatAreGone) {
  auto gone = fixture_.Open();
  Store(*gone, PayKey("a"), PendingRecord(1));
  fixture_.Sql("UPDATE idempotency_instances SET seen = now() - interval '11 minutes'");
  const auto engine = fixture_.Open();
  EXPECT_EQ(engine->Upkeep()->others, 0u);
  EXPECT_EQ(fixture_.Sql("SELECT count(DISTINCT instance) FROM idempotency_slots"), "1");
}

// --- Several engines -----------------------------------------------------------------------------

TEST_F(PostgresTest, OfTwoEnginesThatCreateAKeyOneWins) {
  const auto one = fixture_.Open();
  const auto other = fixture_.Open();
  constexpr int kKeys = 200;
  std::atomic<int> wins{0};
  const auto create_all = [&](Engine& engine) {
    for (int i = 0; i < kKeys; ++i) {
      const std::vector<WriteOutcome> outcomes =
          CommitOne(engine, PayKey(std::to_string(i)), 0, PendingRecord(1));
      if (outcomes.at(0) == WriteOutcome::kCommitted) ++wins;
    }
  };
  std::thread rival([&] { create_all(*other); });
  create_all(*one);
  rival.join();
  EXPECT_EQ(wins, kKeys);
}

// Batches whose keys overlap, in whatever order they are given.
TEST_F(PostgresTest, BatchesOfTwoEnginesGetPastEachOther) {
  const auto one = fixture_.Open();
  const auto other = fixture_.Open();
  const auto write_all = [](Engine& engine, int seed) {
    for (int round = 0; round < 30; ++round) {
      std::vector<core::Key> keys;
      for (int i = 0; i < 50; ++i) keys.push_back(PayKey(std::to_string((i * 7 + seed) % 50)));
      const absl::StatusOr<ReadResult> read = Read(engine, keys);
      ASSERT_TRUE(read.ok()) << read.status();
      std::vector<GuardedWrite> writes;
      for (size_t i = 0; i < keys.size(); ++i) {
        writes.push_back({.key = keys[i],
                          .expected = read->entries[i].version,
                          .record = PendingRecord(read->token_floor)});
      }
      for (const WriteOutcome outcome : Commit(engine, std::move(writes))) {
        EXPECT_NE(outcome, WriteOutcome::kUnknown);
      }
    }
  };
  std::thread rival([&] { write_all(*other, 3); });
  write_all(*one, 0);
  rival.join();
  EXPECT_EQ(fixture_.Sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"), "0");
}

TEST_F(PostgresTest, TheTokenFloorOfOneIsAboveWhatTheOtherHasCommitted) {
  const auto one = fixture_.Open();
  const auto other = fixture_.Open();
  for (int i = 0; i < 20; ++i) {
    Engine& writer = i % 2 == 0 ? *one : *other;
    Engine& reader = i % 2 == 0 ? *other : *one;
    // As high as a whole batch of new keys would come.
    const uint64_t token = Read(writer, {})->token_floor + kMaxPostgresBatch - 1;
    Store(writer, PayKey(std::to_string(i)), PendingRecord(token));
    EXPECT_GT(Read(reader, {})->token_floor, token) << i;
  }
}

TEST_F(PostgresTest, TheOtherEngineLearnsThatAnOperationHasEnded) {
  const core::Key key = PayKey("waited for");
  absl::Notification hinted;
  const auto one = fixture_.Open();
  const auto other = fixture_.Open();
  other->OnForeignChange([&](const core::Key& changed) {
    if (changed == key && !hinted.HasBeenNotified()) hinted.Notify();
  });
  ASSERT_EQ(one->Upkeep()->others, 1u);
  Store(*one, key, PendingRecord(1));
  ASSERT_EQ(StateOf(ReadOne(*other, key)), core::State::kPending);
  Store(*one, key, CompleteRecord(1));
  EXPECT_TRUE(hinted.WaitForNotificationWithTimeout(absl::Minutes(2)));
}

// --- Retired -------------------------------------------------------------------------------------

TEST_F(PostgresTest, AServerThatRunsOnWhenItsStoreIsRetiredWritesNothingMore) {
  const auto forgotten = fixture_.Open();
  const auto other = fixture_.Open();
  Store(*forgotten, PayKey("a"), PendingRecord(1));
  const Version pending = ReadOne(*forgotten, PayKey("a")).version;
  ASSERT_TRUE(RetireBy(*other).ok());
  // Once for each of its sessions, and once more: also what was on its way.
  for (size_t i = 0; i <= fixture_.postgres.connections; ++i) {
    EXPECT_THAT(CommitOne(*forgotten, PayKey("b"), 0, PendingRecord(1)),
                ElementsAre(WriteOutcome::kLostRace));
    EXPECT_THAT(CommitOne(*forgotten, PayKey("a"), pending, CompleteRecord(1)),
                ElementsAre(WriteOutcome::kLostRace));
  }
  EXPECT_TRUE(forgotten->pressure().retired);
  // Whoever asked is told.
  EXPECT_EQ(Read(*forgotten, {PayKey("a")}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsAbsent(ReadOne(*other, PayKey("b"))));
  EXPECT_EQ(ReadOne(*other, PayKey("a")).version, pending);
  // So that the records are still those that were moved.
  EXPECT_TRUE(RetireBy(*other).ok());

  ASSERT_TRUE(Reinstate(other.get()).ok());
  ASSERT_TRUE(forgotten->Upkeep().ok());
  EXPECT_FALSE(forgotten->pressure().retired);
  // Each of its sessions finds out first that it has lost its slot.
  EXPECT_TRUE(BecomesTrue([&] {
    return CommitOne(*forgotten, PayKey("a"), pending, CompleteRecord(1)).at(0) ==
           WriteOutcome::kCommitted;
  }));
}

// Its statement has begun before the store is retired, and ends behind it: it is seen, or lost.
TEST_F(PostgresTest, AWriteThatIsUnderWayWhileTheStoreIsRetiredIsNotOverlooked) {
  const auto forgotten = fixture_.Open();
  const auto other = fixture_.Open();
  Store(*forgotten, PayKey("a"), PendingRecord(1));
  const Version pending = ReadOne(*forgotten, PayKey("a")).version;
  const auto holder = LockRecords();
  std::vector<WriteOutcome> outcomes;
  std::thread late(
      [&] { outcomes = CommitOne(*forgotten, PayKey("a"), pending, CompleteRecord(1)); });
  fixture_.AwaitBlocked("WITH fence");
  absl::Status retired;
  std::thread retires([&] { retired = RetireBy(*other); });
  fixture_.AwaitBlocked("UPDATE idempotency_slots");
  ASSERT_TRUE(holder->Execute("COMMIT").ok());
  late.join();
  retires.join();
  EXPECT_THAT(outcomes, ElementsAre(WriteOutcome::kCommitted));
  EXPECT_EQ(retired.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(retired.ToString(), HasSubstr("records have changed since"));
}

TEST_F(PostgresTest, AnIdleServerNoticesThatItsStoreIsRetired) {
  const auto other = fixture_.Open();
  fixture_.postgres.upkeep_interval = std::chrono::milliseconds(100);
  const auto idle = fixture_.Open();
  ASSERT_TRUE(RetireBy(*other).ok());
  EXPECT_TRUE(BecomesTrue([&] { return idle->pressure().retired; }));
  ASSERT_TRUE(Reinstate(other.get()).ok());
  EXPECT_TRUE(BecomesTrue([&] { return !idle->pressure().retired; }));
}

// --- Expiry --------------------------------------------------------------------------------------

class PostgresExpiry : public PostgresTest {
 protected:
  PostgresExpiry() : engine_(fixture_.Open()) {}

  // The margin and a little more after a moment.
  void GoBehind(core::Time time) {
    fixture_.surroundings().SetNow(
        core::At(core::Add(time, kPostgresRemovalMargin + std::chrono::milliseconds(1))));
  }
  UpkeepReport Upkeep() {
    const absl::StatusOr<UpkeepReport> report = engine_->Upkeep();
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(UpkeepReport{});
  }
  std::string Rows() { return fixture_.Sql("SELECT count(*) FROM idempotency_records"); }

  std::unique_ptr<PostgresEngine> engine_;
};

TEST_F(PostgresExpiry, ACompletedRecordLosesItsAnswerThenEverything) {
  const core::RecordPtr record = CompleteRecord(1);
  Store(*engine_, PayKey("a"), record);
  const Version version = ReadOne(*engine_, PayKey("a")).version;
  fixture_.surroundings().SetNow(core::At(core::Add(
      record->response_expire_time, kPostgresRemovalMargin - std::chrono::milliseconds(1))));
  EXPECT_EQ(Upkeep().shrunk, 0u);
  GoBehind(record->response_expire_time);
  EXPECT_EQ(Upkeep().shrunk, 1u);
  const ReadEntry shrunk = ReadOne(*engine_, PayKey("a"));
  EXPECT_EQ(StateOf(shrunk), core::State::kExpired);
  // It means the same as before: who has read it may still write.
  EXPECT_EQ(shrunk.version, version);
  GoBehind(record->forget_time);
  EXPECT_EQ(Upkeep().removed, 1u);
  EXPECT_EQ(Rows(), "0");
}

TEST_F(PostgresExpiry, WhatIsLeftOfAnErasedKeyGoesAfterTheMargin) {
  Store(*engine_, PayKey("a"), PendingRecord(1));
  Store(*engine_, PayKey("a"), nullptr);
  EXPECT_EQ(Upkeep().removed, 0u);
  EXPECT_EQ(Rows(), "1");
  GoBehind(kStart);
  EXPECT_EQ(Upkeep().removed, 1u);
  EXPECT_EQ(Rows(), "0");
}

TEST_F(PostgresExpiry, OpenRecordsAndThoseThatMustNotGoStay) {
  Store(*engine_, PayKey("pending"), PendingRecord(1));
  Store(*engine_, PayKey("unresolved"), UnresolvedRecord(1));
  fixture_.surroundings().SetNow(core::At(core::kMaxTime - std::chrono::hours(24 * 365)));
  EXPECT_EQ(Upkeep().removed, 0u);
  EXPECT_EQ(Rows(), "2");
}

TEST_F(PostgresExpiry, NothingGoesWhileTheClockIsInDoubtOrTheNamespaceIsNotConfigured) {
  const core::RecordPtr record = CompleteRecord(1);
  Store(*engine_, PayKey("a"), record);
  GoBehind(record->forget_time);
  core::Now doubtful = fixture_.surroundings().now();
  doubtful.in_doubt = true;
  fixture_.surroundings().SetNow(doubtful);
  EXPECT_EQ(Upkeep().removed, 0u);

  engine_.reset();
  fixture_.options.may_reclaim = [](std::string_view name_space) { return name_space != "pay"; };
  engine_ = fixture_.Open();
  GoBehind(record->forget_time);
  EXPECT_EQ(Upkeep().postponed, 1u);
  // Not looked at again at once, so that it does not stand before others for ever.
  EXPECT_EQ(Upkeep().postponed, 0u);
  EXPECT_EQ(Rows(), "1");
}

TEST_F(PostgresExpiry, NothingGoesOfARetiredStore) {
  const core::RecordPtr record = CompleteRecord(1);
  Store(*engine_, PayKey("a"), record);
  const auto other = fixture_.Open();
  ASSERT_TRUE(RetireBy(*other).ok());
  GoBehind(record->forget_time);
  EXPECT_EQ(Upkeep().removed, 0u);
  EXPECT_EQ(StateOf(ReadOne(*engine_, PayKey("a"))), core::State::kComplete);
}

// Whoever retires takes all slots, also that by which expired records are removed.
TEST_F(PostgresExpiry, GoesOnWhereTheRetirementIsTakenBack) {
  const core::RecordPtr record = CompleteRecord(1);
  Store(*engine_, PayKey("a"), record);
  // It has a slot before.
  ASSERT_EQ(Upkeep().removed, 0u);
  const auto other = fixture_.Open();
  ASSERT_TRUE(RetireBy(*other).ok());
  ASSERT_TRUE(Reinstate(other.get()).ok());
  GoBehind(record->forget_time);
  // The row of the mark, too.
  EXPECT_EQ(Upkeep().removed, 2u);
}

TEST_F(PostgresExpiry, ManyGoInBatches) {
  constexpr size_t kMany = 600;
  for (size_t i = 0; i < kMany; i += 200) {
    std::vector<GuardedWrite> writes;
    for (size_t j = i; j < i + 200; ++j) {
      writes.push_back({.key = PayKey(std::to_string(j)), .record = CompleteRecord(1)});
    }
    Commit(*engine_, std::move(writes));
  }
  GoBehind(CompleteRecord(1)->forget_time);
  EXPECT_EQ(Upkeep().removed, kMany);
}

// --- While the database does not answer ----------------------------------------------------------

// Each has a server of its own, which it may end.
class PostgresOutage : public ::testing::Test {
 protected:
  // The same database on each of the servers, which stand in this order.
  std::string UriOf(const std::vector<const PostgresServer*>& servers) const {
    std::string hosts;
    std::string ports;
    for (const PostgresServer* const server : servers) {
      const char* const comma = hosts.empty() ? "" : ",";
      hosts += comma + std::string("127.0.0.1");
      ports += comma + std::to_string(server->port());
    }
    return "host=" + hosts + " port=" + ports +
           " user=postgres dbname=postgres options='-csearch_path=" + fixture_.schema() + "'";
  }

  PostgresServer server_;
  PostgresFixture fixture_{&server_};
};

TEST_F(PostgresOutage, AnswersThatItCannotAndGoesOnWhenItCan) {
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  server_.Kill();
  absl::StatusOr<ReadResult> result = Read(*engine, {PayKey("a")});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(engine->pressure().stalled);
  EXPECT_TRUE(engine->pressure().alive);
  EXPECT_NE(CommitOne(*engine, PayKey("b"), 0, PendingRecord(1)).at(0), WriteOutcome::kCommitted);
  server_.Start();
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("a"))), core::State::kPending);
  EXPECT_FALSE(engine->pressure().stalled);
  Store(*engine, PayKey("b"), PendingRecord(1));
}

TEST_F(PostgresOutage, NewKeysAreTakenBeforeTheNextUpkeepWhenItCanBeReachedAgain) {
  fixture_.postgres.upkeep_interval = std::chrono::hours(1);
  const auto engine = fixture_.Open();
  server_.Kill();
  EXPECT_FALSE(Read(*engine, {PayKey("a")}).ok());
  EXPECT_TRUE(engine->pressure().stalled);
  server_.Start();
  // Nobody asks meanwhile: who would write is refused.
  EXPECT_TRUE(fixture_.surroundings().WaitForLog(kLogInfo, "can be reached again"));
  EXPECT_FALSE(engine->pressure().stalled);
}

TEST_F(PostgresOutage, WhatWasAcknowledgedIsThereAfterAKill) {
  const auto engine = fixture_.Open();
  constexpr int kWriters = 4;
  std::atomic<bool> stop{false};
  std::vector<std::vector<std::string>> acknowledged(kWriters);
  std::vector<std::thread> writers;
  std::atomic<size_t> writes{0};
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; !stop; ++i) {
        const std::string key = std::to_string(writer) + "/" + std::to_string(i);
        if (CommitOne(*engine, PayKey(key), 0, PendingRecord(1)).at(0) !=
            WriteOutcome::kCommitted) {
          break;
        }
        acknowledged[static_cast<size_t>(writer)].push_back(key);
        ++writes;
      }
    });
  }
  EXPECT_TRUE(BecomesTrue([&] { return writes >= 500; }));
  server_.Kill();
  stop = true;
  for (std::thread& writer : writers) writer.join();
  server_.Start();
  for (const auto& keys : acknowledged) {
    for (const std::string& key : keys) {
      EXPECT_EQ(StateOf(ReadOne(*engine, PayKey(key))), core::State::kPending) << key;
    }
  }
}

TEST_F(PostgresOutage, ACommitThatDidNotReachItsStandbyIsUnknown) {
  // So that what waits for the standby is the write, and not the opening of another session.
  fixture_.postgres.connections = 1;
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  server_.Sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  server_.Sql("SELECT pg_reload_conf()");
  const auto test = fixture_.Connect();
  // The setting takes effect a little later.
  WriteOutcome outcome = WriteOutcome::kCommitted;
  int writes = 0;
  std::thread writer([&] {
    while (outcome == WriteOutcome::kCommitted) {
      outcome = CommitOne(*engine, PayKey(std::to_string(++writes)), 0, PendingRecord(1)).at(0);
    }
  });
  const std::string waiting =
      " FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND position('WITH fence' in query) > 0";
  EXPECT_TRUE(BecomesTrue(
      [&] { return test->Execute("SELECT count(*)" + waiting).result.Int(0, 0) != 0; }));
  // It is stored here, and the server answers that it has been done.
  ASSERT_TRUE(test->Execute("SELECT pg_cancel_backend(pid)" + waiting).ok());
  writer.join();
  EXPECT_EQ(outcome, WriteOutcome::kUnknown);
  server_.Sql("ALTER SYSTEM RESET synchronous_standby_names");
  server_.Sql("SELECT pg_reload_conf()");
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey(std::to_string(writes)))), core::State::kPending);
}

TEST_F(PostgresOutage, GoesOnWithTheStandbyThatWasPromoted) {
  PostgresServer standby(server_, "standby");
  fixture_.postgres.uri = UriOf({&server_, &standby});
  server_.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  server_.Sql("SELECT pg_reload_conf()");
  const auto engine = fixture_.Open();
  const uint64_t floor = Read(*engine, {})->token_floor;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(CommitOne(*engine, PayKey(std::to_string(i)), 0, PendingRecord(floor)).at(0),
              WriteOutcome::kCommitted);
  }
  server_.Kill();
  standby.Promote();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(StateOf(ReadOne(*engine, PayKey(std::to_string(i)))), core::State::kPending) << i;
  }
  EXPECT_GT(Read(*engine, {})->token_floor, floor);
  Store(*engine, PayKey("more"), PendingRecord(1));
  // The old one comes back, takes writes for all it knows, and stands first in the list.
  server_.Start();
  standby.Sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE application_name = 'idempotencyd'");
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("more"))), core::State::kPending);
  EXPECT_TRUE(engine->Upkeep().ok());
  // Where it is the only one there is, it is none.
  standby.Kill();
  const absl::Status status = Read(*engine, {PayKey("more")}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.ToString(), HasSubstr("left behind"));
  // And why it was not the other.
  EXPECT_THAT(status.ToString(), HasSubstr("port " + std::to_string(standby.port())));
}

// Nothing is known in a new process, and the old one stands first in the list.
TEST_F(PostgresOutage, AServerThatStartsWhileAnOldPrimaryIsBackDoesNotGoToIt) {
  const core::Key key = PayKey("granted");
  PostgresServer standby(server_, "standby");
  fixture_.postgres.uri = UriOf({&server_, &standby});
  server_.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  server_.Sql("SELECT pg_reload_conf()");
  fixture_.postgres.connections = 1;
  const auto other = fixture_.Open();
  Store(*other, PayKey("before"), PendingRecord(1));
  server_.Kill();
  standby.Promote();
  EXPECT_EQ(StateOf(ReadOne(*other, PayKey("before"))), core::State::kPending);
  Store(*other, key, PendingRecord(1));
  server_.Start();
  // So that it takes writes, and would grant what is granted already.
  server_.Sql("ALTER SYSTEM RESET synchronous_standby_names");
  server_.Sql("SELECT pg_reload_conf()");
  ASSERT_TRUE(BecomesTrue([&] { return fixture_.Sql("SHOW synchronous_standby_names").empty(); }));
  const std::string epoch = fixture_.Sql("SELECT last_epoch FROM idempotency_meta");

  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(StateOf(ReadOne(*engine, key)), core::State::kPending);
  EXPECT_THAT(CommitOne(*engine, key, 0, PendingRecord(1)), ElementsAre(WriteOutcome::kLostRace));
  // Nothing at all was written there.
  EXPECT_EQ(fixture_.Sql("SELECT last_epoch FROM idempotency_meta"), epoch);
}

// It waits for a standby that is none any more: whoever wrote there would never start.
TEST_F(PostgresOutage, AServerStartsWhileAnOldPrimaryIsBackThatWaitsForItsStandby) {
  PostgresServer standby(server_, "standby");
  fixture_.postgres.uri = UriOf({&server_, &standby});
  fixture_.postgres.reply_timeout = std::chrono::seconds(20);
  server_.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  server_.Sql("SELECT pg_reload_conf()");
  Store(*fixture_.Open(), PayKey("a"), PendingRecord(1));
  server_.Kill();
  standby.Promote();
  server_.Start();
  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("a"))), core::State::kPending);
}

// The old primary was cut off from its standby, and not from us.
TEST_F(PostgresOutage, ASessionOnAnOldPrimaryIsGivenUpWhereAnotherHasFoundTheNewOne) {
  PostgresServer standby(server_, "standby");
  Store(*fixture_.Open(), PayKey("a"), PendingRecord(1));
  SlotName slot;
  const auto old = fixture_.OpenSession(&slot);
  ASSERT_NE(old, nullptr);
  std::string written = server_.Sql("SELECT pg_current_wal_lsn()");
  written.pop_back();
  ASSERT_TRUE(BecomesTrue([&] {
    return standby.Sql("SELECT pg_last_wal_replay_lsn() >= '" + written + "'") == "t\n";
  }));
  standby.Promote();
  EXPECT_TRUE(old->usable());
  fixture_.postgres.uri = UriOf({&standby});
  SlotName other_slot;
  const auto other = fixture_.OpenSession(&other_slot);
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(other->usable());
  EXPECT_FALSE(old->usable());
}

// Where hints come from the old primary, nobody hears of anything, and nothing breaks.
TEST_F(PostgresOutage, HintsFollowThePrimaryThoughTheOldOneIsBack) {
  const core::Key key = PayKey("waited for");
  PostgresServer standby(server_, "standby");
  fixture_.postgres.uri = UriOf({&server_, &standby});
  fixture_.postgres.connections = 1;
  server_.Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  server_.Sql("SELECT pg_reload_conf()");
  absl::Notification hinted;
  const auto one = fixture_.Open();
  const auto other = fixture_.Open();
  other->OnForeignChange([&](const core::Key& changed) {
    if (changed == key && !hinted.HasBeenNotified()) hinted.Notify();
  });
  ASSERT_EQ(other->Upkeep()->others, 1u);
  Store(*one, key, PendingRecord(1));
  server_.Kill();
  standby.Promote();
  // Both know of it from here on.
  ASSERT_EQ(StateOf(ReadOne(*one, key)), core::State::kPending);
  ASSERT_EQ(StateOf(ReadOne(*other, key)), core::State::kPending);
  // The old one comes back, and takes writes for all it knows: there the key stays as it was.
  server_.Start();
  server_.Sql("ALTER SYSTEM RESET synchronous_standby_names");
  server_.Sql("SELECT pg_reload_conf()");
  standby.Sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE application_name = 'idempotencyd'");
  ASSERT_EQ(StateOf(ReadOne(*one, key)), core::State::kPending);
  ASSERT_EQ(StateOf(ReadOne(*other, key)), core::State::kPending);
  Store(*one, key, CompleteRecord(1));
  EXPECT_TRUE(hinted.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

TEST_F(PostgresOutage, ASilentHostThatStandsFirstIsAskedAtStartAndByNoSession) {
  SilentHost silent;
  fixture_.postgres.uri =
      "host=127.0.0.1,127.0.0.1 port=" + std::to_string(silent.port()) + "," +
      std::to_string(server_.port()) +
      " user=postgres dbname=postgres options='-csearch_path=" + fixture_.schema() + "'";
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  ASSERT_TRUE(engine->Upkeep().ok());
  EXPECT_EQ(silent.TakeCallers(), 1u);
  // Nor where sessions are lost.
  server_.Kill();
  server_.Start();
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("a"))), core::State::kPending);
  EXPECT_EQ(silent.TakeCallers(), 0u);
}

// A cluster of its own, in which there was a promotion, and none of our tables.
class PostgresOfAnotherCluster : public PostgresOutage {
 protected:
  PostgresOfAnotherCluster() {
    foreign_.Promote();
    foreign_.Sql("CREATE SCHEMA " + fixture_.schema());
  }

  PostgresServer foreign_primary_;
  PostgresServer foreign_{foreign_primary_, "standby"};
};

TEST_F(PostgresOfAnotherCluster, DoesNotShutOutTheOneThatHasTheTables) {
  fixture_.postgres.uri = UriOf({&server_, &foreign_});
  const auto engine = fixture_.Open();
  Store(*engine, PayKey("a"), PendingRecord(1));
  server_.Kill();
  EXPECT_FALSE(Read(*engine, {PayKey("a")}).ok());
  server_.Start();
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("a"))), core::State::kPending);
}

TEST_F(PostgresOfAnotherCluster, IsPassedOverWhereItStandsFirst) {
  Store(*fixture_.Open(), PayKey("a"), PendingRecord(1));
  fixture_.postgres.uri = UriOf({&foreign_, &server_});
  const auto engine = fixture_.Open();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(StateOf(ReadOne(*engine, PayKey("a"))), core::State::kPending);
  EXPECT_EQ(foreign_.Sql("SELECT count(*) FROM pg_class WHERE relname = 'idempotency_meta'"),
            "0\n");
}

}  // namespace
}  // namespace idempotency::keystore
