// A step of a workflow engine: an engine that crashes runs a workflow again from its start, and
// every step that has been done before is told what it answered then. The key of a step follows
// from the workflow's id and the step's name, so that nothing has to be saved; what a step has
// found out half way is saved with it.
#include <string>
#include <vector>

#include "example.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"

namespace {

class Workflow {
 public:
  Workflow(const idempotency::Client& client, std::string id)
      : client_(client), id_(std::move(id)) {}

  // The answer of the step, now or then; nullopt: not now, run the workflow again later.
  std::optional<std::string> Step(const std::string& name, const std::string& input,
                                  const idempotency::EffectFunction& effect) {
    const idempotency::RunResult result =
        client_.Run({.id = {"workflow", "engine-1", idempotency::DeriveKey("step of " + name, id_)},
                     .fingerprint = idempotency::FingerprintBytes("STEP", name, input),
                     .operation_ref = id_,
                     // A crash before the call goes out leaves nothing to find out.
                     .dispatch_later = true},
                    effect);
    if (!result.has_answer()) return std::nullopt;
    return result.response->body.value_or("");
  }

 private:
  const idempotency::Client& client_;
  const std::string id_;
};

}  // namespace

int main(int argc, char** argv) {
  const idempotency::Client client(
      idempotency::MakeConnection({.target = Flag(argc, argv, "target", "127.0.0.1:7420")}));
  Workflow workflow(client, idempotency::RandomKey());
  std::vector<std::string> effects;
  bool crash = true;

  const auto effect = [&](const std::string& what) {
    return [&effects, what](idempotency::Attempt& attempt) {
      if (absl::Status may = attempt.Dispatch(); !may.ok()) {
        return idempotency::EffectResult::Failed(std::move(may));
      }
      effects.push_back(what);
      return idempotency::EffectResult::Answered({.body = what});
    };
  };
  // Dies half way in its first attempt, before anything is sent, and knows so in the next.
  const auto label = [&](idempotency::Attempt& attempt) {
    if (crash) {
      const absl::Status saved = attempt.SaveProgress("address checked");
      Require(saved.ok(), "progress is saved");
      return idempotency::EffectResult::Failed(absl::CancelledError("crash"));
    }
    Require(attempt.progress() == "address checked", "the next attempt knows how far it was");
    return effect("label bought")(attempt);
  };
  const auto run = [&]() -> std::optional<std::string> {
    const auto charged = workflow.Step("charge", "25.00", effect("card charged"));
    if (!charged.has_value()) return std::nullopt;
    const auto labelled = workflow.Step("label", *charged, label);
    if (!labelled.has_value()) return std::nullopt;
    return workflow.Step("mail", *labelled, effect("mail sent"));
  };

  Require(!run().has_value(), "the engine crashed");
  Say("the first run did " + std::to_string(effects.size()) + " step");
  crash = false;
  const auto mailed = run();
  Require(mailed == "mail sent", "the second run went to the end");
  Require(run() == mailed, "a third finds everything done");
  Say("in three runs every step was done once:");
  for (const std::string& done : effects) Say("  " + done);
  Require(effects == std::vector<std::string>{"card charged", "label bought", "mail sent"},
          "every step was done once, in order");
  return 0;
}
