#include "server/host.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "base/memory_info.h"
#include "base/size.h"
#include "engine/budget.h"
#include "engine/engine.h"
#include "engine/model_text.h"
#include "server/openai_common.h"
#include "store/checksum.h"
#include "text/stop_ids.h"

namespace sluice::server {
namespace {

// Of JSON: a value in a list takes 16 bytes, one with a name some 60 and its heap block.
constexpr std::uint64_t kValueBytes = 80;
// Steps on their way to slow clients, small things.
constexpr std::uint64_t kAnswerBytes = kMiB;
// Of all requests that wait. One may take all of it; a larger one is refused.
constexpr std::uint64_t kGrammarBytes = 3 * kMiB;

/// Room for a request's answers and what they tell of their tokens: all that can be asked of one
/// answer in a short context, and the text of one in any.
std::uint64_t room_for_told(std::size_t context) {
  return std::max(context * kAnswerTokenBytes,
                  std::min(kMostToldBytes, context * told_bytes(kMostLikeliest)));
}

/// What the host itself may hold beside the engine, in bytes.
std::uint64_t own_bytes(std::size_t context, std::size_t vocabulary) {
  const std::uint64_t parsing =
      2 * most_body_bytes(context) + most_body_values(context) * kValueBytes;  // one at a time
  const std::uint64_t sampling = vocabulary * 12;
  return Worker::memory_bytes() + parsing + sampling + kAnswerBytes + kGrammarBytes +
         room_for_told(context) + text::TokenIndex::most_bytes(vocabulary) +
         text::TokenConstraint::most_bytes(vocabulary);
}

std::uint64_t saved_state_bytes(const HostOptions& options) {
  constexpr std::uint64_t kShare = 16;
  if (options.saved_states) return *options.saved_states;
  const std::uint64_t ram =
      options.engine.ram.value_or(engine::default_budget(resident_memory(), available_memory()));
  return ram / kShare;
}

std::uint64_t disk_bytes(const HostOptions& options) {
  constexpr std::uint64_t kMost = std::uint64_t{16} << 30;
  constexpr std::uint64_t kShare = 10;
  if (options.state_disk) return *options.state_disk;
  std::error_code error;
  const auto space = std::filesystem::space(options.state_folder.parent_path(), error);
  return error ? kMost : std::min<std::uint64_t>(kMost, space.available / kShare);
}

std::uint64_t digest_of(const text::Tokenizer& tokenizer) {
  store::Checksum checksum;
  for (std::size_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string_view bytes = tokenizer.bytes_of(static_cast<std::int32_t>(id));
    const std::uint64_t size = bytes.size();
    checksum.add(std::as_bytes(std::span(&size, 1)));
    checksum.add(std::as_bytes(std::span(bytes.data(), bytes.size())));
  }
  return checksum.take();
}

ConversationOptions conversation_options(const HostOptions& options, const engine::Engine& engine,
                                         const text::Tokenizer& tokenizer) {
  ConversationOptions conversations;
  conversations.memory = engine.options().saved_states;
  conversations.folder = options.state_folder;
  conversations.part_interval = options.part_interval;
  if (options.state_folder.empty()) return conversations;
  conversations.disk = disk_bytes(options);
  conversations.write_rate = options.state_write;
  conversations.vocabulary = engine.shape().vocabulary;
  conversations.tokenizer_digest = digest_of(tokenizer);
  return conversations;
}

/// The name of the model's folder, or of its GGUF file.
std::string name_of(const std::filesystem::path& model) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(model, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::filesystem::path name = path.filename();
  if (!std::filesystem::is_directory(path, error)) {
    name = path.extension() == ".gguf" ? path.stem() : path.parent_path().filename();
  }
  return name.empty() ? "model" : name.string();
}

/// Without a format there is no chat, but all else works; a template makes people expect one.
void detect_format(const text::Tokenizer& tokenizer, ServedModel& model) {
  auto format = text::ChatFormat::detect(tokenizer);
  if (format) {
    model.format = std::move(*format);
    return;
  }
  model.no_chat = format.error().message;
  if (!tokenizer.chat_template().empty()) log_note("no chat: {}", model.no_chat);
}

}  // namespace

// A token is some four bytes of text, escaped and quoted more; a list of ids is longer.
std::size_t most_body_bytes(std::size_t context) { return kMiB + 16 * context; }

std::size_t most_body_values(std::size_t context) { return 20'000 + 2 * context; }

/// A request's model is found by its name alone.
Status check_adapter_names(const HostOptions& options, const std::string& model) {
  for (const engine::AdapterSource& adapter : options.engine.adapters) {
    if (adapter.name == model) {
      return fail(ErrorKind::usage, "--lora {}: the model itself has this name", adapter.name);
    }
  }
  return {};
}

/// In the order of making: what is later uses what is earlier.
struct Host::Parts {
  explicit Parts(text::Tokenizer known) : tokenizer(std::move(known)) {}

  text::Tokenizer tokenizer;
  GrammarRoom grammars{kGrammarBytes};
  ServedModel model;
  Metrics metrics;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<Worker> worker;
};

Host::Host(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Host::~Host() = default;

Result<std::unique_ptr<Host>> Host::start(HostOptions options) {
  SLUICE_TRY(engine::expect_tokenizer(options.engine.model));
  SLUICE_ASSIGN(text::Tokenizer tokenizer, engine::load_tokenizer(options.engine.model));
  auto parts = std::make_unique<Parts>(std::move(tokenizer));
  parts->model.name = options.name.empty() ? name_of(options.engine.model) : options.name;
  SLUICE_TRY(check_adapter_names(options, parts->model.name));
  WorkerOptions work;
  SLUICE_ASSIGN(const std::filesystem::path folder, engine::text_folder(options.engine.model));
  SLUICE_ASSIGN(work.stop_ids, text::stop_ids(parts->tokenizer, folder));
  work.queue = options.queue;
  options.engine.reserve =
      options.reserve + own_bytes(options.engine.context, parts->tokenizer.vocabulary());
  options.engine.saved_states = saved_state_bytes(options);
  options.engine.watch_experts = true;
  if (!options.state_folder.empty()) {
    options.engine.identify = true;
    options.engine.reserve +=
        Conversations::memory_bytes(options.engine.context, parts->tokenizer.vocabulary());
  }
  options.engine.saved_states_are_asked = options.saved_states.has_value();
  SLUICE_ASSIGN(parts->engine, engine::Engine::open(options.engine));
  work.conversations = conversation_options(options, *parts->engine, parts->tokenizer);
  const model::Shape& shape = parts->engine->shape();
  work.stop_ids.insert(work.stop_ids.end(), shape.end_ids.begin(), shape.end_ids.end());

  ServedModel& model = parts->model;
  model.drive_limits = options.drive_limits;
  for (const auto& adapter : options.engine.adapters) {
    model.adapters.push_back(adapter.name);
    // Without a folder of state no answer is kept.
    const auto number = static_cast<std::uint32_t>(model.adapters.size());
    const bool identified = options.engine.identify;
    model.adapter_digests.push_back(identified ? parts->engine->adapter_digest(number) : number);
  }
  model.tokenizer = &parts->tokenizer;
  detect_format(parts->tokenizer, model);
  model.context = parts->engine->options().context;
  model.vocabulary = std::min(shape.vocabulary, parts->tokenizer.vocabulary());
  model.grammars = &parts->grammars;
  model.told_bytes = room_for_told(model.context);
  model.created = static_cast<std::int64_t>(std::time(nullptr));
  SLUICE_ASSIGN(parts->worker,
                Worker::start(*parts->engine, parts->tokenizer, parts->metrics, std::move(work)));
  return std::unique_ptr<Host>(new Host(std::move(parts)));
}

const ServedModel& Host::model() const { return parts_->model; }
Worker& Host::worker() { return *parts_->worker; }
Metrics& Host::metrics() { return parts_->metrics; }

}  // namespace sluice::server
