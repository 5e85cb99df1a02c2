#include "tests/support/service_fixture.h"

#include <fstream>

#include "gtest/gtest.h"
#include "keystore/engine/open_engine.h"
#include "service/response.h"

namespace idempotency::testing {
namespace {

// Any time will do; tests move it.
constexpr core::Time kStart{std::chrono::seconds(1'800'000'000)};

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
}

}  // namespace

ServiceFixture::ServiceFixture(Options options)
    : options_(std::move(options)),
      clock_(kStart),
      log_(service::Log::Options{options_.log_level, options_.log_fd}) {
  std::string path;
  if (!options_.config.empty()) {
    path = directory_.path() + "/config.yaml";
    WriteFile(path, options_.config);
  }
  auto config = service::ConfigHolder::Open(path);
  EXPECT_TRUE(config.ok()) << config.status();
  config_ = std::move(*config);
  Start();
}

ServiceFixture::~ServiceFixture() { Stop(); }

std::string ServiceFixture::EngineName() const {
  if (!options_.data_dir.empty()) return "rocksdb";
  if (options_.engine || !options_.in_memory_because.empty()) return "memory";
  return options_.durable && SuiteEngineName() == "memory" ? "rocksdb" : SuiteEngineName();
}

std::unique_ptr<keystore::Engine> ServiceFixture::MakeEngine() {
  if (options_.engine) return options_.engine();
  keystore::EngineOptions options;
  options.engine = EngineName();
  options.data_dir = options_.data_dir.empty() ? directory_.file("store") : options_.data_dir;
  options.ballast_bytes = 0;
  options.min_free_bytes = 0;
  options.now = [this] { return clock_.Read(); };
  options.without_body = &service::WithoutBody;
  if (options.engine == "memory" || options.engine == "rocksdb") {
    auto engine = keystore::OpenEngine(std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return std::move(*engine);
  }
  if (!store_) store_.emplace();
  return store_->Open(options);
}

void ServiceFixture::Start() {
  service::ServerParts parts;
  parts.engine = MakeEngine();
  ASSERT_NE(parts.engine, nullptr);
  traits_ = parts.engine->traits();
  parts.clock = &clock_;
  parts.config = config_.get();
  parts.log = &log_;
  parts.metrics = &metrics_;
  parts.access = options_.access;
  parts.on_engine_dead = [this] { engine_dead_ = true; };
  if (options_.adjust) options_.adjust(&parts);
  service::ServerOptions options;
  options.listen = options_.listen;
  options.transfer = options_.transfer;
  options.engine_name = EngineName();
  auto server = service::Server::Start(std::move(parts), options);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = std::move(*server);
  const std::shared_ptr<grpc::Channel> channel = NewChannel();
  api_ = std::make_unique<Api>(channel);
  admin_ = std::make_unique<AdminApi>(channel);
}

void ServiceFixture::Stop() { server_.reset(); }

void ServiceFixture::Restart() {
  Stop();
  Start();
}

void ServiceFixture::Advance(core::Duration span) {
  clock_.Advance(span);
  server_->WakeTimers();
}

std::shared_ptr<grpc::Channel> ServiceFixture::NewChannel() const {
  return NewChannel(options_.channel_credentials != nullptr ? options_.channel_credentials
                                                            : grpc::InsecureChannelCredentials());
}

std::shared_ptr<grpc::Channel> ServiceFixture::NewChannel(
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
  grpc::ChannelArguments arguments;
  // A connection of its own: tests must not share what a test breaks.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const bool has_port = options_.listen.rfind("unix:", 0) != 0;
  const std::string target =
      has_port ? "127.0.0.1:" + std::to_string(server_->port()) : options_.listen;
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

absl::Status ServiceFixture::Reconfigure(const std::string& yaml) {
  WriteFile(directory_.path() + "/config.yaml", yaml);
  return config_->Reload();
}

}  // namespace idempotency::testing
