// sluice tokenize: text to ids and back.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/json_text.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/tokens.h"
#include "text/tokenizer.h"

namespace sluice::cli {
namespace {

struct TokenizeOptions {
  std::filesystem::path model;
  std::optional<std::string> text;
  std::optional<std::string> file;
  std::vector<std::int32_t> decode;
  bool special = false;
  bool json = false;
};

class Tokenize final : public Command {
 public:
  explicit Tokenize(CLI::App& app) {
    add_model(app, options_.model);
    app.add_option("TEXT", options_.text,
                   "The text, or -f FILE; after -- it may begin with a dash");
    app.add_option("-f,--file", options_.file, "A file with the text; -: stdin")->type_name("FILE");
    add_ids(app, "--decode", options_.decode, "The other way: print the text of these ids");
    app.add_flag("--special", options_.special,
                 "Spellings of special tokens become these tokens; otherwise they are text");
    app.add_flag("--json", options_.json, "Print a JSON object with ids, pieces and text");
    app.footer(
        "Prints the ids on one line, separated by commas; for an empty text an empty line.\n\n"
        "Examples:\n"
        "  sluice tokenize models/k3-nano \"It was on a dreary night\"\n"
        "  sluice tokenize models/k3-nano -f page.txt --json\n"
        "  sluice tokenize models/k3-nano -- \"-1 is less than 0\"\n"
        "  sluice tokenize models/k3-nano --decode 1858,399,365");
  }

  Status execute() override {
    SLUICE_TRY(check());
    SLUICE_ASSIGN(const text::Tokenizer tokenizer, load_tokenizer(options_.model));
    std::vector<std::int32_t> ids = options_.decode;
    if (ids.empty()) {
      SLUICE_ASSIGN(ids, encode(tokenizer));
    } else {
      SLUICE_TRY(check_ids(tokenizer));
    }
    Output output = Output::standard();
    if (options_.json) return write_json(tokenizer, ids, output);
    if (options_.decode.empty()) return output.write(join_ids(ids) + "\n");
    const std::string end = output.is_terminal() ? "\n" : "";
    return output.write(tokenizer.decode(ids) + end);
  }

 private:
  Status check() const {
    const int sources =
        (options_.text ? 1 : 0) + (options_.file ? 1 : 0) + (options_.decode.empty() ? 0 : 1);
    if (sources == 1) return {};
    return fail(ErrorKind::usage, "give exactly one of TEXT, -f FILE and --decode 1,2,3");
  }

  Result<std::vector<std::int32_t>> encode(const text::Tokenizer& tokenizer) const {
    std::string text = options_.text.value_or("");
    if (options_.file) {
      SLUICE_ASSIGN(text, read_whole(*options_.file, "-f"));
    }
    const auto special =
        options_.special ? text::Tokenizer::Special::as_control : text::Tokenizer::Special::as_text;
    return tokenizer.encode(text, special);
  }

  Status check_ids(const text::Tokenizer& tokenizer) const {
    for (const std::int32_t id : options_.decode) {
      if (static_cast<std::size_t>(id) < tokenizer.vocabulary()) continue;
      return fail(ErrorKind::usage, "--decode: there is no id {}; ids are 0 to {}", id,
                  tokenizer.vocabulary() - 1);
    }
    return {};
  }

  static Status write_json(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                           Output& output) {
    SLUICE_TRY(output.append("{\"ids\": [" + join_ids(ids) + "], \"pieces\": ["));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string piece = tokenizer.piece(ids[i]);  // broken characters as U+FFFD
      SLUICE_TRY(output.append((i > 0 ? ", " : "") + json_string(piece)));
    }
    SLUICE_TRY(output.append("], \"text\": " + json_string(tokenizer.decode(ids)) + "}\n"));
    return output.flush();
  }

  TokenizeOptions options_;
};

}  // namespace

Registered add_tokenize(CLI::App& program) {
  CLI::App* app = program.add_subcommand("tokenize", "Turn text into token ids, and back");
  return {app, std::make_unique<Tokenize>(*app)};
}

}  // namespace sluice::cli
