// sluice batch: a file of requests, without a server.
#include <algorithm>
#include <deque>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "cli/adapter_options.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/request_file.h"
#include "cli/result_file.h"
#include "cli/statistics_output.h"
#include "server/asked.h"
#include "server/batch_lines.h"
#include "server/host.h"
#include "server/job_runner.h"
#include "store/checksum.h"

namespace sluice::cli {
namespace {

using server::BatchLine;

constexpr std::size_t kLongestLine = std::size_t{1} << 30;

struct BatchOptions {
  ComputeOptions compute;
  std::string input;
  std::string output;
};

/// Tells requests apart: the same custom_id may come with another question next time.
std::string id_of(const BatchLine& line) {
  const std::string text = line.custom_id + '\n' + line.url + '\n' +
                           text::python_json(line.body, text::JsonForm::compact_sorted);
  return fmt::format("{:016x}", store::checksum_of(std::as_bytes(std::span(text))));
}

class Batch final : public Command {
 public:
  explicit Batch(CLI::App& app) {
    add_adapters(app, options_.compute);
    add_compute_options(app, options_.compute, fmt::format("{}", kDefaultContext));
    add_drafts(app, options_.compute.drafts);
    app.remove_option(app.get_option("MODEL"));
    app.add_option("FILE", options_.input,
                   "Requests, one a line, as OpenAI's Batch API has them; -: stdin")
        ->required();
    add_model_flag(app, options_.compute.model);
    app.add_option("--out", options_.output, "File for the results, one a line")
        ->type_name("FILE")
        ->required();
    app.footer(
        "A line is {\"custom_id\": ..., \"method\": \"POST\", \"url\": \"/v1/chat/completions\",\n"
        "\"body\": {...}}; \"model\" in its body is the model's folder name, or that of a\n"
        "--lora. Requests that have a result in --out are not done again: after an interruption,\n"
        "give the same command. A result of another request with the same custom_id is an "
        "error.\n"
        "When some requests were refused or failed the rest is answered, and the exit code is that "
        "of\nthe first of them.\n\n"
        "Example:\n"
        "  sluice batch questions.jsonl --model /drive/Kimi-K3 --out answers.jsonl --ram 32G");
  }

  Status execute() override {
    SLUICE_TRY(check_outputs(options_.compute,
                             {{.flag = "--out", .path = options_.output, .is_continued = true}},
                             {options_.input}));
    ProgressLine progress(options_.compute.quiet);
    ResultFile results(options_.output);
    SLUICE_TRY(results.read([&](std::size_t count) {
      if (progress.is_due()) progress.show(fmt::format("results from before: {} read", count));
    }));
    const std::size_t context = options_.compute.context.value_or(kDefaultContext);
    most_values_ = server::most_body_values(context);
    SLUICE_ASSIGN(const RequestFile requests,
                  RequestFile::open(options_.input,
                                    std::min(server::most_body_bytes(context), kLongestLine)));
    SLUICE_TRY(find_open(requests, results, progress));
    results.forget();
    SLUICE_TRY(results.open());
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    server::HostOptions host_options;
    host_options.engine = engine_options(options_.compute, kDefaultContext);
    SLUICE_ASSIGN(const auto host, server::Host::start(std::move(host_options)));
    Interrupts::watch();
    const Status status = answer_all(*host, requests, results, progress);
    const Status written = statistics.write(host->worker().snapshot().engine);
    SLUICE_TRY(status);
    SLUICE_TRY(written);
    return conclude();
  }

 private:
  /// Which lines have no result yet.
  Status find_open(const RequestFile& requests, const ResultFile& results, ProgressLine& progress) {
    std::deque<std::pair<NameDigest, RequestFile::Line>> names;
    SLUICE_TRY(requests.for_each([&](const RequestFile::Line& at, std::string_view text) -> Status {
      SLUICE_ASSIGN(const BatchLine line, parse(requests, at, text));
      const NameDigest name = digest_of(line.custom_id);
      names.emplace_back(name, at);
      if (progress.is_due()) progress.show(fmt::format("requests: {} read", names.size()));
      const KnownResult* const known = results.find(name);
      if (known == nullptr) {
        open_.push_back(at);
        return {};
      }
      ++known_;
      if (known->status != 200) count_failure(kind_of(known->status));
      return check_known(requests.place(at), line, *known);
    }));
    progress.erase();
    if (names.empty()) {
      return fail(ErrorKind::usage, "FILE: {}: there is no request in it", options_.input);
    }
    std::ranges::sort(names, {},
                      [](const auto& each) { return std::pair(each.first, each.second.number); });
    const auto twice = std::ranges::adjacent_find(
        names, [](const auto& one, const auto& other) { return one.first == other.first; });
    if (twice == names.end()) return {};
    const RequestFile::Line& at = std::next(twice)->second;
    SLUICE_ASSIGN(const std::string text, requests.read(at));
    SLUICE_ASSIGN(const BatchLine line, parse(requests, at, text));
    return fail(ErrorKind::usage, "{}: custom_id \"{}\" comes twice", requests.place(at),
                line.custom_id);
  }

  Result<BatchLine> parse(const RequestFile& requests, const RequestFile::Line& at,
                          std::string_view text) const {
    auto line = server::read_batch_line(text, requests.place(at), most_values_);
    if (!line) return fail(ErrorKind::usage, "{}", line.error().message);
    return std::move(*line);
  }

  /// A result must be that of this request.
  Status check_known(const std::string& place, const BatchLine& line,
                     const KnownResult& known) const {
    const std::string id = server::result_id(id_of(line));
    if (known.id == store::checksum_of(std::as_bytes(std::span(id)))) return {};
    return fail(ErrorKind::usage,
                "{}: {} has a result for custom_id \"{}\", but of another request; give another "
                "--out, or the request another custom_id",
                place, options_.output, line.custom_id);
  }

  Status answer_all(server::Host& host, const RequestFile& requests, ResultFile& results,
                    ProgressLine& progress) {
    Status status;
    for (done_ = 0; status && done_ < open_.size(); ++done_) {
      status = answer_at(host, requests, open_[done_], results, progress);
    }
    progress.erase();
    return status;
  }

  Status answer_at(server::Host& host, const RequestFile& requests, const RequestFile::Line& at,
                   ResultFile& results, ProgressLine& progress) {
    SLUICE_ASSIGN(const std::string text, requests.read(at));
    SLUICE_ASSIGN(const BatchLine line, parse(requests, at, text));
    return answer(host, line, results, progress);
  }

  /// A request without an answer is no success, whenever it failed.
  Status conclude() const {
    const std::size_t total = known_ + open_.size();
    log_note("{} of {} requests have an answer, {} do not; {} were known from before; {}",
             total - failed_, total, failed_, known_, options_.output);
    if (failed_ == 0) return {};
    return fail(first_failure_, "{} of {} requests got no answer; {} says why", failed_, total,
                options_.output);
  }

  void count_failure(ErrorKind kind) {
    if (failed_++ == 0) first_failure_ = kind;
  }

  /// Of a result from before only the status is known.
  static ErrorKind kind_of(int status) {
    if (status == 503) return ErrorKind::memory;
    return status >= 500 ? ErrorKind::number : ErrorKind::usage;
  }

  Status answer(server::Host& host, const BatchLine& line, ResultFile& results,
                ProgressLine& progress) {
    const std::string& name = line.custom_id;
    const std::uint64_t seed = server::seed_of(name);  // the same whenever it is begun
    const std::string id = id_of(line);
    const auto asked = server::read_asked(line.url, line.body, host.model(), id, seed);
    if (!asked) {
      const bool is_too_long = asked.error().code == "context_length_exceeded";
      count_failure(is_too_long ? ErrorKind::memory : kind_of(asked.error().status));
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
            id, name, 200, asked->writer->whole_line(collector.choices(), event->usage)));
      }
      if (event->kind == Kind::failed) return fail_one(*event->error, id, name, results);
      collector.add(*event);
    }
  }

  /// A drive that fails would fail the next request too; anything else is this request's alone.
  Status fail_one(const Error& error, const std::string& id, const std::string& name,
                  ResultFile& results) {
    if (error.kind == ErrorKind::drive) return tl::unexpected(error);
    count_failure(error.kind);
    const server::ApiError api = server::to_api_error(error);
    return results.add(server::batch_result(id, name, api.status, server::openai_error(api)));
  }

  void show(const server::WorkerStatus& now, ProgressLine& progress) const {
    if (!progress.is_due()) return;
    std::string text = fmt::format("request {} of {}: ", done_ + 1, open_.size());
    if (now.phase == server::WorkerStatus::Phase::prefill) {
      text += fmt::format("prompt, {} of {} tokens", now.prompt_done, now.prompt_tokens);
    } else {
      text += fmt::format("{} tokens", now.generated);
    }
    text += fmt::format(", layer {}/{}", now.layer + 1, now.layers);
    if (now.left_s) text += fmt::format(", at most {} left", format_seconds(*now.left_s));
    if (done_ > 0) {
      const double each = seconds_since(start_) / static_cast<double>(done_);
      const auto left = static_cast<double>(open_.size() - done_);
      text += fmt::format(", {} for all", format_seconds(each * left));
    }
    progress.show(text);
  }

  BatchOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::size_t most_values_ = 0;
  std::deque<RequestFile::Line> open_;  // a deque: growing needs no second copy
  std::size_t known_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  ErrorKind first_failure_ = ErrorKind::usage;
};

}  // namespace

Registered add_batch(CLI::App& program) {
  CLI::App* app = program.add_subcommand("batch", "Answer a file of requests");
  return {app, std::make_unique<Batch>(*app)};
}

}  // namespace sluice::cli
