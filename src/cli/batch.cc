// sluice batch: a file of requests, without a server.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/statistics_output.h"
#include "server/asked.h"
#include "server/batch_lines.h"
#include "server/host.h"
#include "server/job_runner.h"

namespace sluice::cli {
namespace {

using server::BatchLine;

constexpr std::size_t kContext = 4096;

struct BatchOptions {
  ComputeOptions compute;
  std::string input;
  std::string output;
};

/// The file of results. Each is whole and on the drive before the next is begun.
class ResultFile {
 public:
  explicit ResultFile(std::string path) : path_(std::move(path)) {}
  ~ResultFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Opens it, and reads which requests have their results already. A line that an interruption
  /// left unfinished is cut off.
  Result<std::set<std::string>> open() {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
    if (descriptor_ < 0) return failed("cannot be opened");
    SLUICE_ASSIGN(std::string text, read_whole(path_, "--out"));
    const std::size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
    if (end < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) {
      return failed("cannot be cut");
    }
    std::set<std::string> done;
    std::size_t number = 0;
    for (std::string_view rest = std::string_view(text).substr(0, end); !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      ++number;
      const auto json = text::parse_json(line, "a result", ErrorKind::usage);
      if (!json || !json->is_object() || !json->contains("custom_id")) {
        return fail(ErrorKind::usage,
                    "--out: {}: line {} is no result of a batch; give another file", path_, number);
      }
      done.insert((*json)["custom_id"].is_string() ? (*json)["custom_id"].get<std::string>() : "");
    }
    return done;
  }

  Status add(std::string_view line) {
    while (!line.empty()) {
      const ssize_t count = ::write(descriptor_, line.data(), line.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed("cannot be written");
      line.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fdatasync(descriptor_) != 0 && errno != EINVAL) return failed("cannot be written");
    return {};
  }

 private:
  tl::unexpected<Error> failed(const char* what) const {
    return fail(ErrorKind::drive, "--out: {}: {}: {}", path_, what,
                std::generic_category().message(errno));
  }

  const std::string path_;
  int descriptor_ = -1;
};

class Batch final : public Command {
 public:
  explicit Batch(CLI::App& app) {
    add_compute_options(app, options_.compute);
    app.remove_option(app.get_option("MODEL"));
    app.add_option("FILE", options_.input, "Requests, one a line, as OpenAI's Batch API has them")
        ->required();
    app.add_option("--model", options_.compute.model,
                   "The model's folder, as downloaded; or its index or weight file")
        ->type_name("MODEL")
        ->required();
    app.add_option("--out", options_.output, "File for the results, one a line")
        ->type_name("FILE")
        ->required();
    app.footer(
        "A line is {\"custom_id\": ..., \"method\": \"POST\", \"url\": \"/v1/chat/completions\",\n"
        "\"body\": {...}}; \"model\" in its body is the model's folder name. Requests that have a\n"
        "result in --out are not done again: after an interruption, give the same command.\n\n"
        "Example:\n"
        "  sluice batch questions.jsonl --model /drive/Kimi-K3 --out answers.jsonl --ram 32G");
  }

  Status execute() override {
    ResultFile results(options_.output);
    SLUICE_ASSIGN(const std::set<std::string> done, results.open());
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    server::HostOptions host_options;
    host_options.engine = engine_options(options_.compute, kContext);
    SLUICE_ASSIGN(const std::string text, read_whole(options_.input, "FILE"));
    SLUICE_ASSIGN(const std::vector<BatchLine> lines, read_lines(text, done));
    total_ = lines.size();
    SLUICE_ASSIGN(const auto host, server::Host::start(std::move(host_options)));
    Interrupts::watch();
    ProgressLine progress(options_.compute.quiet);
    Status status;
    for (done_ = 0; status && done_ < total_; ++done_) {
      status = answer(*host, lines[done_], results, progress);
    }
    progress.erase();
    const Status written = statistics.write(host->worker().snapshot().engine);
    SLUICE_TRY(status);
    log_note("{} of {} requests answered, {} known from before, {} refused or failed; {}", total_,
             total_, done.size(), failed_, options_.output);
    return written;
  }

 private:
  /// The lines that have no result yet.
  Result<std::vector<BatchLine>> read_lines(const std::string& text,
                                            const std::set<std::string>& done) const {
    std::vector<BatchLine> lines;
    std::set<std::string> names;
    const std::size_t values =
        server::most_body_values(options_.compute.context.value_or(kContext));
    const auto take = [&](std::string_view line, std::size_t number) -> server::ApiStatus {
      const std::string where = fmt::format("{}: line {}", options_.input, number);
      SLUICE_ASSIGN(BatchLine each, server::read_batch_line(line, where, values));
      if (!names.insert(each.custom_id).second) {
        return server::refuse(where, "custom_id \"{}\" comes twice", each.custom_id);
      }
      if (!done.contains(each.custom_id)) lines.push_back(std::move(each));
      return {};
    };
    const server::ApiStatus read = server::for_each_line(text, take);
    if (!read) return fail(ErrorKind::usage, "{}", read.error().message);
    return lines;
  }

  Status answer(server::Host& host, const BatchLine& line, ResultFile& results,
                ProgressLine& progress) {
    const std::string& name = line.custom_id;
    const std::uint64_t seed = server::seed_of(name);  // the same whenever it is begun
    const std::string id = fmt::format("{:016x}", seed);
    const auto asked = server::read_asked(line.url, line.body, host.model(), id, seed);
    if (!asked) {
      ++failed_;
      return results.add(server::batch_result(id, name, asked.error().status,
                                              server::openai_error(asked.error())));
    }
    const auto task = std::make_shared<server::Task>(asked->id, "batch", asked->generation);
    server::AnswerCollector collector(task->generation());
    host.worker().submit(task);
    using Kind = server::TaskEvent::Kind;
    while (true) {
      const auto event = task->next(std::chrono::milliseconds(100));
      if (Interrupts::cancellation().requested()) {
        host.worker().cancel(task);
        return fail(ErrorKind::interrupted, "interrupted");
      }
      show(host.worker().status(), progress);
      if (!event) continue;
      if (event->kind == Kind::done) {
        return results.add(server::batch_result(
            id, name, 200,
            server::to_line(asked->writer->whole(collector.choices(), event->usage))));
      }
      if (event->kind == Kind::failed) return fail_one(*event->error, id, name, results);
      collector.add(*event);
    }
  }

  /// A drive that fails would fail the next request too; anything else is this request's alone.
  Status fail_one(const Error& error, const std::string& id, const std::string& name,
                  ResultFile& results) {
    if (error.kind == ErrorKind::drive) return tl::unexpected(error);
    ++failed_;
    const server::ApiError api = server::to_api_error(error);
    return results.add(server::batch_result(id, name, api.status, server::openai_error(api)));
  }

  void show(const server::WorkerStatus& now, ProgressLine& progress) const {
    if (!progress.is_due()) return;
    std::string text = fmt::format("request {} of {}: ", done_ + 1, total_);
    if (now.phase == server::WorkerStatus::Phase::prefill) {
      text += fmt::format("prompt, {} of {} tokens", now.prompt_done, now.prompt_tokens);
    } else {
      text += fmt::format("{} tokens", now.generated);
    }
    text += fmt::format(", layer {}/{}", now.layer + 1, now.layers);
    if (now.left_s) text += fmt::format(", at most {} left", format_seconds(*now.left_s));
    if (done_ > 0) {
      const double each = seconds_since(start_) / static_cast<double>(done_);
      text +=
          fmt::format(", {} for all", format_seconds(each * static_cast<double>(total_ - done_)));
    }
    progress.show(text);
  }

  BatchOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace

Registered add_batch(CLI::App& program) {
  CLI::App* app = program.add_subcommand("batch", "Answer a file of requests");
  return {app, std::make_unique<Batch>(*app)};
}

}  // namespace sluice::cli
