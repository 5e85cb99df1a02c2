// What is asked of a server as such, and of this tool: health, version.
#include <string>

#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/completion.h"
#include "google/protobuf/struct.pb.h"
#include "grpc/health/v1/health.pb.h"

namespace idempotency::ctl {
namespace {

constexpr char kApi[] = "idempotency.v1";

struct HealthOptions {
  std::string service;
};

ExitCode RunHealth(const HealthOptions& options, Session& session) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(options.service);
  grpc::health::v1::HealthCheckResponse response;
  if (const auto error = session.connection().CheckHealth(request, &response)) {
    return session.Fail(*error, session.Failed("health", /*changes=*/false, {}));
  }
  const auto status = response.status();
  session.Show(response, grpc::health::v1::HealthCheckResponse::ServingStatus_Name(status) + ": " +
                             session.globals().target.server + "\n");
  return status == grpc::health::v1::HealthCheckResponse::SERVING ? ExitCode::kOk
                                                                  : ExitCode::kNotServing;
}

struct CompletionOptions {
  const CLI::App* app = nullptr;
  std::string shell;
};

ExitCode RunCompletion(const CompletionOptions& options, Session& session) {
  google::protobuf::Struct document;
  const std::string script = CompletionScript(*options.app, options.shell);
  (*document.mutable_fields())["script"].set_string_value(script);
  session.Show(document, script);
  return ExitCode::kOk;
}

struct VersionOptions {};

ExitCode RunVersion(const VersionOptions&, Session& session) {
  google::protobuf::Struct document;
  (*document.mutable_fields())["version"].set_string_value(IDEMPOTENCY_VERSION);
  (*document.mutable_fields())["api"].set_string_value(kApi);
  session.Show(document, VersionText() + "\n");
  return ExitCode::kOk;
}

}  // namespace

std::string VersionText() {
  return "idempotencyctl " IDEMPOTENCY_VERSION " (API " + std::string(kApi) + ")";
}

void AddHealth(CLI::App* app, Action* action) {
  const auto options = std::make_shared<HealthOptions>();
  CLI::App* command = AddCommand(app, "health", "Whether the server serves (grpc.health.v1)");
  command
      ->add_option("--service", options->service,
                   "Full name of one gRPC service [the server as a whole]")
      ->type_name("NAME");
  SetFooter(command, "\nExit codes: 0 serving, 6 not serving, 2 usage, 3 refused, 4 no answer.\n");
  OnNamed(command, action, options, &RunHealth);
}

void AddCompletion(CLI::App* app, Action* action) {
  const auto options = std::make_shared<CompletionOptions>();
  options->app = app;
  CLI::App* command = AddCommand(app, "completion", "A script that completes commands and options");
  command->add_option("SHELL", options->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->type_name("");
  SetFooter(command,
            "\nExit codes: 0 printed, 2 usage.\n\nExample:\n"
            "  source <(idempotencyctl completion bash)\n");
  OnNamed(command, action, options, &RunCompletion);
}

void AddVersion(CLI::App* app, Action* action) {
  CLI::App* command = AddCommand(app, "version", "The version of this tool and its API");
  SetFooter(command, "\nExit codes: 0.\n");
  OnNamed(command, action, std::make_shared<VersionOptions>(), &RunVersion);
}

}  // namespace idempotency::ctl
