// lithe pull: a model from the Hugging Face hub into the cache that huggingface_hub keeps too.
#include "hub/pull.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "command.h"
#include "console.h"

namespace lithe::app {
namespace {

struct PullFlags {
  std::string repo, revision;
  hub::Wanted wanted;
  bool offline = false, json = false;
};

/// The bar, shared by the threads that fetch.
class Meter {
 public:
  void plan(const hub::Plan& plan) {
    if (!plan.note.empty()) log_info("{}", plan.note);
    if (plan.files == 0) return;
    bar_ = std::make_unique<Progress>(fmt::format("{} in {} file{}", human_bytes(double(plan.bytes)),
                                                  plan.files, plan.files == 1 ? "" : "s"),
                                      double(plan.bytes));
  }
  void advance(double bytes) {
    if (bar_ == nullptr) return;
    bar_->advance(bytes);
    const std::lock_guard lock(mutex_);
    recent_ += bytes;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - since_).count();
    if (seconds < 1.0) return;
    bar_->note(human_bytes(std::max(recent_, 0.0) / seconds) + "/s");
    recent_ = 0.0;
    since_ = now;
  }
  /// Erases the bar.
  void finish() { bar_.reset(); }
  void warn(const std::string& line) {
    if (bar_ != nullptr) bar_->erase();
    log_warning("{}", line);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<Progress> bar_;
  std::mutex mutex_;
  double recent_ = 0.0;  // bytes since `since_`
  Clock::time_point since_ = Clock::now();
};

Result<hub::Repo> chosen_repo(const PullFlags& flags) {
  LITHE_ASSIGN_OR_RETURN(hub::Repo repo, hub::parse_repo(flags.repo));
  if (!flags.revision.empty()) {
    if (repo.revision != "main" && repo.revision != flags.revision)
      return invalid("--revision {} and {} name two revisions", printable(flags.revision),
                     printable(flags.repo, 300));
    LITHE_RETURN_IF_ERROR(hub::check_revision(flags.revision).with_context("--revision"));
    repo.revision = flags.revision;
  }
  const int ways =
      int(!repo.type.empty()) + int(!flags.wanted.include.empty()) + int(!flags.wanted.file.empty());
  if (ways > 1) return invalid("a type, --include and --hf-file each choose the files: give one of them");
  return repo;
}

std::string report_json(const hub::Repo& repo, const hub::Pulled& pulled, double seconds) {
  const nlohmann::ordered_json json = {{"repo", repo.id},
                                       {"revision", repo.revision},
                                       {"commit", pulled.commit},
                                       {"model", pulled.model.string()},
                                       {"files", pulled.files},
                                       {"bytes", pulled.bytes},
                                       {"missing_bytes", pulled.missing_bytes},
                                       {"seconds", seconds}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status run_pull(const PullFlags& flags) {
  LITHE_ASSIGN_OR_RETURN(const hub::Repo repo, chosen_repo(flags));
  hub::Wanted wanted = flags.wanted;
  wanted.type = repo.type;
  hub::Settings settings = hub::settings_from_environment();
  settings.offline = settings.offline || flags.offline;
  watch_interrupts();
  Meter meter;
  const hub::Hooks hooks{interrupted, [&](double bytes) { meter.advance(bytes); },
                         [&](const std::string& line) { meter.warn(line); }};
  const auto begin = std::chrono::steady_clock::now();
  auto pulled = hub::pull(settings, repo, wanted, hooks, [&](const hub::Plan& plan) { meter.plan(plan); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  meter.finish();
  if (!pulled.ok()) return std::move(pulled).status();
  return print(flags.json ? report_json(repo, *pulled, seconds) : pulled->model.string() + "\n");
}

}  // namespace

Run add_pull(CLI::App& app) {
  auto flags = std::make_shared<PullFlags>();
  app.add_option("--repo,repo", flags->repo,
                 "org/name, org/name:Q4_K_M for a GGUF file of that type, org/name@revision")
      ->required()
      ->type_name("REPO");
  app.add_option("--revision", flags->revision, "Branch, tag or commit; default: main")->type_name("REV");
  app.add_option("--hf-file", flags->wanted.file, "This file, with the other parts of its split")
      ->type_name("NAME");
  app.add_option("--include", flags->wanted.include, "Files that fit this pattern; may be repeated")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.add_option("--exclude", flags->wanted.exclude, "But not these; may be repeated")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.add_flag("--offline", flags->offline, "Only look in the cache; HF_HUB_OFFLINE=1 says so too");
  app.add_flag("--json", flags->json, "Report as JSON");
  app.footer(
      "Prints the path of the model; an interrupted download goes on where it stopped.\n"
      "HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_CACHE mean what they mean to huggingface_hub.\n"
      "Example: lithe pull bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M");
  return [flags] { return run_pull(*flags); };
}

}  // namespace lithe::app
