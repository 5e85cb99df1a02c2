// A store whose responses and progress are sealed: what is in its files, what becomes of it when
// keys change, go missing or are lost, and of bytes that somebody has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/codec/byte_io.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/command.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/key_ring.h"
#include "keystore/engine/needed_keys.h"
#include "keystore/engine/open_engine.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBody[] = "marked-body-of-the-answer";
constexpr char kProgress[] = "marked-progress-of-an-attempt";

core::RecordPtr WithProgress(uint64_t token = 1) {
  Story story;
  story.Reserve(token);
  return story
      .Apply(
          core::RenewCommand{.token = token, .lease = std::chrono::hours(1), .progress = kProgress})
      .ptr();
}

bool AnyFileHolds(const std::string& directory, const std::string& text) {
  for (const auto& file : fs::recursive_directory_iterator(directory)) {
    if (!file.is_regular_file()) continue;
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(stream), {}};
    if (content.find(text) != std::string::npos) return true;
  }
  return false;
}

class SealedStoreTest : public ::testing::Test {
 protected:
  // Opens it with this key as the current one.
  void OpenWith(const std::string& id) {
    fixture_.AddKey(id);
    fixture_.MakeCurrent(id);
    ASSERT_NE(fixture_.Open(), nullptr);
  }
  RocksDbEngine& engine() { return fixture_.engine(); }
  core::Stored StoredAs(const std::string& key) { return ReadOne(engine(), PayKey(key)).stored; }
  bool IsUnreadable(const std::string& key) {
    return std::holds_alternative<core::Unreadable>(StoredAs(key));
  }
  // The record, whose answer or progress cannot be read for want of a key.
  static core::Record Without(core::Record record) {
    record.progress.reset();
    if (record.response.bytes.present()) {
      record.response = {.bytes = core::Blob(), .body_omitted = true};
    }
    return record;
  }
  std::vector<std::string> KeyIds() {
    const bool was_open = fixture_.has_engine();
    fixture_.Close();
    std::vector<std::string> ids = *fixture_.OpenStore()->KeyIds();
    if (was_open) fixture_.Open();
    return ids;
  }
  RewrapProgress Rewrap() {
    const auto done = engine().Rewrap([](const RewrapProgress&) {});
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? *done : RewrapProgress{};
  }

  RocksDbFixture fixture_;
};

// --- What is in the files
// --------------------------------------------------------------------------

TEST_F(SealedStoreTest, HasNeitherAnswersNorProgressInItsFiles) {
  for (const bool sealed : {false, true}) {
    RocksDbFixture fixture;
    if (sealed) {
      fixture.AddKey("k1");
      fixture.MakeCurrent("k1");
    }
    ASSERT_NE(fixture.Open(), nullptr);
    Store(fixture.engine(), PayKey("a"), CompleteRecord(1, kBody));
    Store(fixture.engine(), PayKey("b"), WithProgress());
    // In the log, then in tables.
    EXPECT_EQ(AnyFileHolds(fixture.data_dir(), kBody), !sealed);
    EXPECT_EQ(AnyFileHolds(fixture.data_dir(), kProgress), !sealed);
    fixture.Close();
    EXPECT_EQ(AnyFileHolds(fixture.data_dir(), kBody), !sealed);
    EXPECT_EQ(AnyFileHolds(fixture.data_dir(), kProgress), !sealed);
    ASSERT_NE(fixture.Open(), nullptr);
    EXPECT_EQ(std::get<core::Record>(ReadOne(fixture.engine(), PayKey("a")).stored),
              *CompleteRecord(1, kBody));
    EXPECT_EQ(std::get<core::Record>(ReadOne(fixture.engine(), PayKey("b")).stored),
              *WithProgress());
  }
}

TEST_F(SealedStoreTest, IsForNewVersionsOnlyOnceSomethingMayBeSealed) {
  ASSERT_NE(fixture_.Open(), nullptr);
  fixture_.Close();
  const auto format = [this] {
    std::string text;
    const auto store = fixture_.OpenStore();
    EXPECT_TRUE(store->db().Get({}, kFormatVersionKey, &text).ok());
    return text;
  };
  EXPECT_EQ(format(), "1");
  OpenWith("k1");
  fixture_.Close();
  EXPECT_EQ(format(), "2");
}

TEST_F(SealedStoreTest, NeverSealsTheSameTwiceTheSameWay) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord());
  const std::optional<std::string> first = fixture_.Stored(Family::kFinished, PayKey("a"));
  Store(engine(), PayKey("a"), nullptr);
  Store(engine(), PayKey("a"), CompleteRecord());
  const std::optional<std::string> second = fixture_.Stored(Family::kFinished, PayKey("a"));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->substr(first->size() - 60), second->substr(second->size() - 60));
}

TEST_F(SealedStoreTest, ExpiresWithoutKeys) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord(1, kBody));
  const core::Time expired = std::get<core::Record>(StoredAs("a")).response_expire_time;
  fixture_.surroundings().SetNow(core::At(expired + std::chrono::hours(2)));
  ASSERT_NE(fixture_.Open(), nullptr);
  ASSERT_TRUE(engine().Compact().ok());
  const std::optional<std::string> bytes = fixture_.Stored(Family::kFinished, PayKey("a"));
  ASSERT_TRUE(bytes.has_value());
  EXPECT_TRUE(DecodeValue({RecordSealer(), EncodeKey(PayKey("a"))}, *bytes).has_value());
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")).state, core::State::kExpired);
}

// --- Keys that change
// ------------------------------------------------------------------------------

TEST_F(SealedStoreTest, ReadsWhatOlderKeysHaveSealed) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("plain"), CompleteRecord(1, "p"));
  OpenWith("2026-01");
  Store(engine(), PayKey("old"), CompleteRecord(1, "o"));
  OpenWith("2026-02");
  Store(engine(), PayKey("new"), CompleteRecord(1, "n"));
  EXPECT_EQ(std::get<core::Record>(StoredAs("plain")), *CompleteRecord(1, "p"));
  EXPECT_EQ(std::get<core::Record>(StoredAs("old")), *CompleteRecord(1, "o"));
  EXPECT_EQ(std::get<core::Record>(StoredAs("new")), *CompleteRecord(1, "n"));
  EXPECT_THAT(KeyIds(), ElementsAre("2026-01", "2026-02"));
  const std::vector<ScanEntry> all = ScanAll(engine(), {}, 10);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(std::get<core::Record>(all[2].stored), *CompleteRecord(1, "p"));
}

TEST_F(SealedStoreTest, WithoutACurrentKeySealsNothingNew) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord(1, "sealed"));
  fixture_.MakeCurrent("");
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("b"), CompleteRecord(1, kBody));
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), *CompleteRecord(1, "sealed"));
  EXPECT_TRUE(AnyFileHolds(fixture_.data_dir(), kBody));
}

TEST_F(SealedStoreTest, RewrapsEverythingWithTheCurrentKey) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("plain"), CompleteRecord(1, kBody));
  Store(engine(), PayKey("nothing to seal"), PendingRecord());
  OpenWith("k1");
  Store(engine(), PayKey("old"), CompleteRecord(1, "o"));
  Store(engine(), PayKey("open"), WithProgress());
  OpenWith("k2");
  Store(engine(), PayKey("new"), CompleteRecord(1, "n"));
  const Version version = ReadOne(engine(), PayKey("old")).version;

  const RewrapProgress done = Rewrap();
  EXPECT_EQ(done.visited, 5u);
  EXPECT_EQ(done.rewrapped, 3u);
  EXPECT_EQ(done.key_missing, 0u);
  EXPECT_EQ(done.unreadable, 0u);
  // It means the same as before.
  EXPECT_EQ(ReadOne(engine(), PayKey("old")).version, version);
  EXPECT_EQ(Rewrap().rewrapped, 0u);

  fixture_.Close();
  EXPECT_FALSE(AnyFileHolds(fixture_.data_dir(), kBody));
  EXPECT_THAT(KeyIds(), ElementsAre("k2"));
  fixture_.RemoveKey("k1");
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(std::get<core::Record>(StoredAs("plain")), *CompleteRecord(1, kBody));
  EXPECT_EQ(std::get<core::Record>(StoredAs("nothing to seal")), *PendingRecord());
  EXPECT_EQ(std::get<core::Record>(StoredAs("old")), *CompleteRecord(1, "o"));
  EXPECT_EQ(std::get<core::Record>(StoredAs("open")), *WithProgress());
  EXPECT_EQ(std::get<core::Record>(StoredAs("new")), *CompleteRecord(1, "n"));
}

TEST_F(SealedStoreTest, RewrapsToPlainWhereNoKeyIsCurrent) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord(1, "sealed"));
  fixture_.MakeCurrent("");
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(Rewrap().rewrapped, 1u);
  EXPECT_THAT(KeyIds(), IsEmpty());
  fixture_.Close();
  fixture_.options.engine.response_keys.clear();
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), *CompleteRecord(1, "sealed"));
}

TEST_F(SealedStoreTest, TellsHowFarItIs) {
  OpenWith("k1");
  std::vector<GuardedWrite> writes;
  const core::RecordPtr record = CompleteRecord();
  for (uint64_t i = 0; i < kRewrapTold + 1; ++i) {
    writes.push_back({PayKey(std::to_string(i)), 0, record});
    if (writes.size() == 1000) Commit(engine(), std::exchange(writes, {}));
  }
  Commit(engine(), std::move(writes));
  OpenWith("k2");
  std::vector<uint64_t> told;
  const auto done = engine().Rewrap([&](const RewrapProgress& progress) {
    told.push_back(progress.visited);
    EXPECT_GT(progress.estimated, 0u);
  });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->rewrapped, kRewrapTold + 1);
  EXPECT_THAT(told, ElementsAre(kRewrapTold));
}

// --- Keys that are lost
// ----------------------------------------------------------------------------

TEST_F(SealedStoreTest, DoesNotOpenWithoutAKeyThatItNeeds) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord());
  OpenWith("k2");
  fixture_.Close();
  fixture_.RemoveKey("k1");
  const absl::Status refused = fixture_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("k1.key"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--lost_response_keys"));
  // As little as without any.
  fixture_.options.engine.response_keys.clear();
  EXPECT_TRUE(absl::IsFailedPrecondition(fixture_.TryOpen()));
}

TEST_F(SealedStoreTest, LosesAnswersWithAKeyAndNotThatTheyWereGiven) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord(1, kBody));
  Store(engine(), PayKey("b"), WithProgress());
  OpenWith("k2");
  Store(engine(), PayKey("c"), CompleteRecord(1, "c"));
  fixture_.Close();
  fixture_.RemoveKey("k1");
  fixture_.options.engine.lost_response_keys = {"k1"};
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), Without(*CompleteRecord(1, kBody)));
  EXPECT_EQ(std::get<core::Record>(StoredAs("b")), Without(*WithProgress()));
  EXPECT_EQ(std::get<core::Record>(StoredAs("c")), *CompleteRecord(1, "c"));
  EXPECT_TRUE(fixture_.surroundings().Logged(kLogWarning, "sealed with the key k1"));

  // Whoever asks again is told that it has been done, and to look elsewhere.
  core::ReserveCommand again;
  again.fingerprint = CompleteRecord()->fingerprint;
  again.attempt_id = {.high = 100, .low = 1};
  again.lease = std::chrono::seconds(30);
  const core::Decision decision =
      core::Step(StoredAs("a"), again, core::Policy{}, core::At(kStart), 10);
  const auto& answer = std::get<core::ReserveAnswer>(decision.answer);
  EXPECT_EQ(answer.outcome, core::ReserveOutcome::kCompleted);
  EXPECT_EQ(answer.next_step, core::NextStep::kLookUpAnswer);

  // Rewrapping leaves them be: the key may turn up.
  const RewrapProgress done = Rewrap();
  EXPECT_EQ(done.key_missing, 2u);
  EXPECT_THAT(KeyIds(), ElementsAre("k1", "k2"));
  OpenWith("k1");
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), *CompleteRecord(1, kBody));
  EXPECT_EQ(std::get<core::Record>(StoredAs("b")), *WithProgress());
}

// --- Bytes that somebody has changed
// ---------------------------------------------------------------

std::string WithNewChecksum(std::string value) {
  const size_t number = static_cast<uint8_t>(value.front()) < 0x80 ? 1 : 2;
  std::string record = value.substr(number, value.size() - number - 4);
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(record.data()), record.size()));
  ByteWriter(&record).Fixed32(crc);
  return value.substr(0, number) + record;
}

TEST_F(SealedStoreTest, CannotBeChangedInItsFiles) {
  OpenWith("k1");
  Store(engine(), PayKey("a"), CompleteRecord(1, kBody));
  const std::string value = *fixture_.Stored(Family::kFinished, PayKey("a"));
  const size_t at = value.find("\x02k1") + 3;
  const size_t end = at + kSealSaltBytes + sizeof(kBody) - 1 + kSealTagBytes;
  ASSERT_LT(end, value.size());
  for (const size_t byte : {at, at + kSealSaltBytes + 1, end - 1}) {
    std::string changed = value;
    changed[byte] = static_cast<char>(changed[byte] ^ 1);
    fixture_.Plant(Family::kFinished, PayKey("a"), WithNewChecksum(changed));
    EXPECT_TRUE(IsUnreadable("a")) << byte;
  }
  fixture_.Plant(Family::kFinished, PayKey("a"), WithNewChecksum(value));
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), *CompleteRecord(1, kBody));
  // Another operation's, and it is said which.
  fixture_.Plant(Family::kFinished, PayKey("b"), value);
  EXPECT_TRUE(IsUnreadable("b"));
  EXPECT_EQ(Rewrap().unreadable, 1u);
}

// --- Files of keys
// -----------------------------------------------------------------------------------

struct KeyFileRow {
  const char* name;
  std::function<void(const std::string& directory)> change;
  const char* says;
};

void Write(const std::string& path, const std::string& content, int mode = 0600) {
  std::error_code ignored;
  fs::remove(path, ignored);
  std::ofstream(path) << content;
  fs::permissions(path, static_cast<fs::perms>(mode));
}

const std::string kHex(64, 'a');

TEST(KeyRingTest, RefusesWhatIsNoKeyAndSaysWhatToDo) {
  const KeyFileRow rows[] = {
      {"short", [](const auto& d) { Write(d + "/k1.key", kHex.substr(1)); }, "64 hex digits"},
      {"long", [](const auto& d) { Write(d + "/k1.key", kHex + "a"); }, "64 hex digits"},
      {"very_long", [](const auto& d) { Write(d + "/k1.key", kHex + kHex); }, "64 hex digits"},
      {"empty", [](const auto& d) { Write(d + "/k1.key", ""); }, "64 hex digits"},
      {"no_hex", [](const auto& d) { Write(d + "/k1.key", "g" + kHex.substr(1)); }, "hex digits"},
      {"for_everybody", [](const auto& d) { Write(d + "/k1.key", kHex, 0644); }, "chmod o-rwx"},
      {"bad_name", [](const auto& d) { Write(d + "/k 1.key", kHex); }, "[A-Za-z0-9._-]"},
      {"long_name", [](const auto& d) { Write(d + "/" + std::string(33, 'k') + ".key", kHex); },
       "1 to 32"},
      {"current_unknown", [](const auto& d) { Write(d + "/current", "k2"); }, "no key of this"},
      {"a_directory", [](const auto& d) { fs::create_directory(d + "/k1.key"); }, "cannot be read"},
  };
  for (const KeyFileRow& row : rows) {
    const TempDirectory directory;
    row.change(directory.path());
    const auto ring = KeyRing::Load(directory.path());
    ASSERT_FALSE(ring.ok()) << row.name;
    EXPECT_TRUE(absl::IsFailedPrecondition(ring.status())) << row.name;
    EXPECT_THAT(std::string(ring.status().message()), HasSubstr(row.says)) << row.name;
    EXPECT_THAT(std::string(ring.status().message()), ::testing::Not(HasSubstr("aaaa")));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(KeyRing::Load("/nowhere/at/all").status()));
}

// Two that begin at once have other keys: what each has read first says nothing of the other.
TEST(NeededKeysTest, OfTwoThatBeginAtOnceTheSecondSeesTheFirst) {
  RocksDbFixture files;
  files.AddKey("mine");
  files.MakeCurrent("mine");
  const auto ring = KeyRing::Load(files.options.engine.response_keys);
  ASSERT_TRUE(ring.ok()) << ring.status();
  std::vector<std::string> ids;
  NeededKeyList list;
  list.read = [&] { return ids; };
  list.remember = [&](const std::string& id) {
    ids.push_back(id);
    ids.push_back("theirs");
    return absl::OkStatus();
  };
  const absl::Status refused = ShareNeededKeys("the store", list, **ring, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("theirs.key"));
  // The other may have seen it by now.
  EXPECT_THAT(ids, ElementsAre("mine", "theirs"));
  // Who is refused at once adds nothing.
  ids = {"theirs"};
  EXPECT_TRUE(absl::IsFailedPrecondition(ShareNeededKeys("the store", list, **ring, {})));
  EXPECT_THAT(ids, ElementsAre("theirs"));
  // Nor who finds its own there already, which is most starts.
  ids = {"mine"};
  EXPECT_TRUE(ShareNeededKeys("the store", list, **ring, {}).ok());
  EXPECT_THAT(ids, ElementsAre("mine"));
}

TEST(KeyRingTest, TakesWhatAreKeys) {
  const TempDirectory directory;
  Write(directory.file("2026-01.key"), kHex + "\n", 0440);
  Write(directory.file("k_2.A.key"), std::string(64, 'B') + "\r\n");
  Write(directory.file("notes.txt"), "not a key", 0644);
  Write(directory.file(".hidden.key"), "not a key", 0644);
  auto ring = KeyRing::Load(directory.path());
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_FALSE((*ring)->current().has_value());
  Write(directory.file("current"), "k_2.A\n", 0644);
  ring = KeyRing::Load(directory.path());
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ((*ring)->current()->id, "k_2.A");
  EXPECT_EQ((*ring)->current()->secret, std::string(32, '\xbb'));
  EXPECT_EQ((*ring)->Find("2026-01")->secret, std::string(32, '\xaa'));
  EXPECT_FALSE((*ring)->Find("notes").has_value());
}

TEST(SealingOptionsTest, AreRefusedWhereTheyHaveNoEffect) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(OpenEngine({.engine = "memory", .response_keys = "/keys"}).status()));
  const TempDirectory directory;
  EngineOptions without_randomness{.data_dir = directory.file("data"),
                                   .response_keys = directory.path()};
  without_randomness.now = [] { return core::At(kStart); };
  EXPECT_TRUE(absl::IsInvalidArgument(OpenEngine(without_randomness).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      RewrapStore({.engine = "memory"}, [](const RewrapProgress&) {}).status()));
}

}  // namespace
}  // namespace idempotency::keystore
