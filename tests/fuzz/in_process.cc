#include "tests/fuzz/in_process.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <variant>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "keystore/codec/key_codec.h"
#include "keystore/codec/record_codec.h"
#include "keystore/core/invariants.h"
#include "service/access.h"
#include "service/activity.h"
#include "service/config.h"
#include "service/log.h"
#include "service/metrics.h"
#include "tests/fuzz/require.h"
#include "tests/support/temp_directory.h"

namespace idempotency::fuzz {
namespace {

constexpr core::Time kStart{std::chrono::seconds(1'800'000'000)};

// One namespace of each kind, and every other under the defaults.
constexpr char kConfig[] = R"(unlisted_namespaces: ALLOW
limits: {max_waiters: 8, max_waiters_per_key: 4}
namespaces:
  retry: {preset: STRIPE_V1, max_response_bytes: 32, max_key_bytes: 20}
  inbox: {preset: WEBHOOK_INBOX, scope_optional: true, key_check: WARN}
  run: {preset: ACTIVE_RUN, key_check: OFF}
)";

std::unique_ptr<service::ConfigHolder> OpenConfig() {
  const TempDirectory directory;
  std::ofstream(directory.file("config.yaml")) << kConfig;
  auto config = service::ConfigHolder::Open(directory.file("config.yaml"));
  Require(config.ok(), "the configuration is good", config.status().ToString());
  return std::move(*config);
}

struct Shared {
  Shared() { google::protobuf::SetLogHandler(nullptr); }

  const service::AllowAll allow_all;
  const std::unique_ptr<service::ConfigHolder> config = OpenConfig();
  service::Log log{service::Log::Options{service::LogLevel::kError}};
  service::CountingMetrics metrics;
  service::Activity activity{&log, &metrics, nullptr};
};

// Never destroyed: libFuzzer ends the process as it likes.
Shared& TheShared() {
  static auto* const kShared = new Shared;
  return *kShared;
}

keystore::KeyStoreOptions StoreOptions() {
  keystore::KeyStoreOptions options;
  options.max_waiters = TheShared().config->Get()->limits().max_waiters;
  options.max_waiters_per_key = TheShared().config->Get()->limits().max_waiters_per_key;
  return options;
}

void ComesBack(const core::Record& record) {
  std::string bytes;
  keystore::EncodeRecord(record, &bytes);
  Require(keystore::DecodeRecord(bytes) == record, "what was stored is read as it was written");
}

}  // namespace

grpc::ByteBuffer ToBuffer(std::string_view bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToText(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  Require(buffer.Dump(&slices).ok(), "a message can be read");
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// --- The world ----------------------------------------------------------------------------------

World::World()
    : clock_(kStart),
      store_(&engine_, &clock_, &TheShared().activity, StoreOptions()),
      desk_(&store_, &clock_, TheShared().config.get(), &TheShared().allow_all,
            &TheShared().activity) {}

World::~World() {
  Require(store_.waiters() == 0 && store_.queued() == 0, "everything has been answered");
}

void World::Advance(core::Duration span) {
  clock_.Advance(span);
  store_.RunTimers();
  store_.Sweep();
}

void World::CheckRecords() {
  Require(engine_.pressure().alive, "no record that breaks a rule was to be written");
  const auto check = [](absl::StatusOr<keystore::ScanResult> page) {
    Require(page.ok() && page->resume_key.empty(), "all records can be listed");
    for (const keystore::ScanEntry& entry : page->entries) {
      Require(keystore::DecodeKey(keystore::EncodeKey(entry.key)) == entry.key,
              "a key is read as it was written");
      ComesBack(std::get<core::Record>(entry.stored));
    }
  };
  constexpr size_t kAll = 1'000'000;
  engine_.Scan({}, kAll, "", check);
}

// --- A unary call -------------------------------------------------------------------------------

UnaryDriver::~UnaryDriver() {
  Require(finished(), "a call ends");
  static_cast<grpc::internal::ServerReactor*>(reactor_)->OnDone();
}

bool UnaryDriver::finished() const {
  absl::MutexLock lock(&mutex_);
  return status_.has_value();
}

void UnaryDriver::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return status_.has_value(); };
  mutex_.Await(absl::Condition(&ended));
}

grpc::Status UnaryDriver::status() const {
  absl::MutexLock lock(&mutex_);
  return *status_;
}

void UnaryDriver::Finish(grpc::Status status) {
  absl::MutexLock lock(&mutex_);
  Require(!status_.has_value(), "a call ends once");
  status_ = std::move(status);
}

// --- A pipeline ---------------------------------------------------------------------------------

StreamDriver::StreamDriver(World* world)
    : reactor_(service::PipelineCall::Start(&world->desk(), &registry_, &context_)) {
  BindReactor(reactor_);
}

StreamDriver::~StreamDriver() {
  Require(finished() && reading_ == nullptr && writing_ == nullptr, "a stream ends");
  reactor_->OnDone();
}

bool StreamDriver::Deliver(std::string_view bytes) {
  if (reading_ == nullptr) return false;
  *std::exchange(reading_, nullptr) = ToBuffer(bytes);
  reactor_->OnReadDone(true);
  return true;
}

bool StreamDriver::TakeWritten(std::string* bytes) {
  if (writing_ == nullptr) return false;
  *bytes = ToText(*std::exchange(writing_, nullptr));
  reactor_->OnWriteDone(true);
  return true;
}

bool StreamDriver::Close() {
  if (std::exchange(reading_, nullptr) == nullptr) return false;
  reactor_->OnReadDone(false);
  return true;
}

void StreamDriver::Break() {
  const bool was_reading = std::exchange(reading_, nullptr) != nullptr;
  const bool was_writing = std::exchange(writing_, nullptr) != nullptr;
  if (was_writing) reactor_->OnWriteDone(false);
  static_cast<grpc::internal::ServerReactor*>(reactor_)->OnCancel();
  if (was_reading) reactor_->OnReadDone(false);
}

void StreamDriver::Read(grpc::ByteBuffer* message) {
  Require(reading_ == nullptr && !finished(), "one message is read at a time");
  reading_ = message;
}

void StreamDriver::Write(const grpc::ByteBuffer* message, grpc::WriteOptions) {
  Require(writing_ == nullptr && !finished(), "one message is written at a time");
  writing_ = message;
}

void StreamDriver::WriteAndFinish(const grpc::ByteBuffer*, grpc::WriteOptions, grpc::Status) {
  Require(false, "a pipeline writes, and then finishes");
}

void StreamDriver::Finish(grpc::Status status) {
  Require(!finished() && writing_ == nullptr, "a stream ends once, and when all is written");
  status_ = std::move(status);
}

}  // namespace idempotency::fuzz
