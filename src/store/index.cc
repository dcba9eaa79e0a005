#include "store/index.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "store/json.h"

namespace sluice::store {
namespace {

using VisitLine = FunctionRef<void(std::string_view name, std::string_view shard)>;

/// A name that leads to a file beside the index and nowhere else.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

/// Walks an index. Members return an error when the JSON broke off; what is wrong within good JSON
/// is a fault.
class IndexReader {
 public:
  IndexReader(std::string_view file, FaultList& faults, VisitLine visit)
      : file_(file), faults_(faults), visit_(visit) {}

  simdjson::error_code read(ondemand::document& document) {
    ondemand::object root;
    if (const auto error = document.get_object().get(root)) return error;
    for (auto result : root) {
      ondemand::field field;
      if (const auto error = std::move(result).get(field)) return error;
      std::string_view key;
      if (const auto error = key_of(field, key)) return error;
      if (const auto error = read_key(key, field.value())) return error;
    }
    if (!has_map_) {
      faults_.add(file_,
                  "expected an object 'weight_map', found none; this is no index of "
                  "safetensors files");
    }
    return at_end(document) ? simdjson::SUCCESS : simdjson::TRAILING_CONTENT;
  }

  std::optional<std::uint64_t> total_size() const { return total_size_; }
  std::uint64_t lines() const { return lines_; }

 private:
  simdjson::error_code read_key(std::string_view key, ondemand::value value) {
    if (key == "metadata") return read_metadata(value);
    if (key != "weight_map") return check_value(value);
    if (std::exchange(has_map_, true)) {
      faults_.add(file_, "expected one 'weight_map', found two; download the index again");
      return check_value(value);
    }
    return read_map(value);
  }

  simdjson::error_code read_metadata(ondemand::value value) {
    ondemand::object object;
    const auto wrong = value.get_object().get(object);
    if (wrong == simdjson::INCORRECT_TYPE) return check_value(value);  // nothing we need is lost
    if (wrong) return wrong;
    for (auto result : object) {
      ondemand::field field;
      if (const auto error = std::move(result).get(field)) return error;
      std::string_view key;
      if (const auto error = key_of(field, key)) return error;
      std::uint64_t number = 0;
      if (key == "total_size" && !field.value().get_uint64().get(number)) {
        total_size_ = number;
      } else if (const auto error = check_value(field.value())) {
        return error;
      }
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_map(ondemand::value value) {
    ondemand::object map;
    const auto wrong = value.get_object().get(map);
    if (wrong == simdjson::INCORRECT_TYPE) {
      faults_.add(file_, "weight_map: expected an object, found {}", shown_json(value));
      return check_value(value);
    }
    if (wrong) return wrong;
    for (auto result : map) {
      ondemand::field field;
      if (const auto error = std::move(result).get(field)) return error;
      std::string_view name;
      if (const auto error = key_of(field, name)) return error;
      if (const auto error = read_line(name, field.value())) return error;
    }
    if (lines_ == 0) faults_.add(file_, "weight_map: no tensors in it; download the index again");
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_line(std::string_view name, ondemand::value value) {
    ++lines_;
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return error;
    if (type != ondemand::json_type::string) {
      faults_.add(file_, "tensor {}: expected the name of a file, found {}", shown(name),
                  shown_json(value));
      return check_value(value);
    }
    ondemand::raw_json_string raw;
    if (const auto error = value.get_raw_json_string().get(raw)) return error;
    // Escapes in file names are as good as never there, and room for them would be taken for
    // every line: half the text again.
    const auto shard = plain_text(raw);
    if (shard && is_plain_file_name(*shard)) {
      visit_(name, *shard);
    } else {
      faults_.add(file_, "tensor {}: expected the plain name of a file beside the index, found {}",
                  shown(name), shard ? shown(*shard) : "one with a backslash");
    }
    return simdjson::SUCCESS;
  }

  std::string_view file_;
  FaultList& faults_;
  VisitLine visit_;
  bool has_map_ = false;
  std::optional<std::uint64_t> total_size_;
  std::uint64_t lines_ = 0;
};

/// Numbers for the files' names. Neighbouring lines mostly name the same file.
class ShardNumbers {
 public:
  std::uint32_t number_of(std::string_view name) {
    if (name == last_name_ && !numbers_.empty()) return last_;
    const auto next = static_cast<std::uint32_t>(numbers_.size());
    const auto [at, is_new] = numbers_.try_emplace(std::string(name), next);
    last_name_ = at->first;
    last_ = at->second;
    return last_;
  }

  /// Gives the names the numbers of their sorted order, and returns them so.
  std::vector<std::string> sort() {
    std::vector<std::string> names;
    names.reserve(numbers_.size());
    for (const auto& [name, number] : numbers_) names.push_back(name);
    std::sort(names.begin(), names.end());
    for (std::uint32_t i = 0; i < names.size(); ++i) numbers_[names[i]] = i;
    last_name_ = {};
    return names;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::string_view last_name_;  // a key of numbers_
  std::uint32_t last_ = 0;
};

}  // namespace

struct Index::State {
  PaddedText text;
  ondemand::parser parser;
  ShardNumbers numbers;
  std::vector<std::string> shards;
  std::optional<std::uint64_t> total_size;
  std::uint64_t lines = 0;
};

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

std::optional<Index> Index::read(const std::filesystem::path& path, FaultList& faults) {
  auto text = read_padded(path, kMaxIndexBytes);
  if (!text) {
    faults.add_error(std::move(text).error());
    return std::nullopt;
  }
  return parse(std::move(*text), path.filename().string(), faults);
}

std::optional<Index> Index::parse(PaddedText text, std::string_view file, FaultList& faults) {
  auto state = std::make_unique<State>();
  state->text = std::move(text);
  const auto visit = [&](std::string_view, std::string_view shard) {
    state->numbers.number_of(shard);
  };
  IndexReader reader(file, faults, visit);
  const std::string problem =
      parse_document(state->parser, state->text,
                     [&](ondemand::document& document) { return reader.read(document); });
  if (!problem.empty()) {
    faults.add(file, "the index is not a valid JSON object ({}); download it again", problem);
    return std::nullopt;
  }
  state->shards = state->numbers.sort();
  state->total_size = reader.total_size();
  state->lines = reader.lines();
  if (state->shards.empty()) return std::nullopt;
  return Index(std::move(state));
}

const std::vector<std::string>& Index::shards() const { return state_->shards; }

std::uint64_t Index::lines() const { return state_->lines; }

std::optional<std::uint64_t> Index::total_size() const { return state_->total_size; }

void Index::for_each(FunctionRef<void(std::string_view, std::uint32_t)> visit) {
  FaultList known;  // was reported by parse()
  const auto visit_line = [&](std::string_view name, std::string_view shard) {
    visit(name, state_->numbers.number_of(shard));
  };
  IndexReader reader("", known, visit_line);
  parse_document(state_->parser, state_->text,
                 [&](ondemand::document& document) { return reader.read(document); });
}

}  // namespace sluice::store
