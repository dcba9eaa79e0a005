// sluice batch: a file of requests, without a server.
#include <set>
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
#include "cli/prompt.h"
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

constexpr std::size_t kContext = 4096;

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
    add_compute_options(app, options_.compute);
    app.remove_option(app.get_option("MODEL"));
    app.add_option("FILE", options_.input, "Requests, one a line, as OpenAI's Batch API has them")
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
        "error.\n\n"
        "Example:\n"
        "  sluice batch questions.jsonl --model /drive/Kimi-K3 --out answers.jsonl --ram 32G");
  }

  Status execute() override {
    SLUICE_TRY(check_outputs(options_.compute,
                             {{.flag = "--out", .path = options_.output, .is_continued = true}},
                             {options_.input}));
    ResultFile results(options_.output);
    SLUICE_ASSIGN(const ResultFile::Known known, results.read());
    SLUICE_ASSIGN(const std::string text, read_whole(options_.input, "FILE"));
    SLUICE_ASSIGN(const std::vector<BatchLine> lines, read_lines(text, known));
    SLUICE_TRY(results.open());
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    server::HostOptions host_options;
    host_options.engine = engine_options(options_.compute, kContext);
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
             total_, known.size(), failed_, options_.output);
    return written;
  }

 private:
  /// The lines that have no result yet.
  Result<std::vector<BatchLine>> read_lines(const std::string& text,
                                            const ResultFile::Known& known) const {
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
      const auto result = known.find(each.custom_id);
      if (result == known.end()) {
        lines.push_back(std::move(each));
      } else if (result->second != server::result_id(id_of(each))) {
        return server::refuse(where,
                              "{} has a result for custom_id \"{}\", but of another request; give "
                              "another --out, or the request another custom_id",
                              options_.output, each.custom_id);
      }
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
    const std::string id = id_of(line);
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
