#include "store/header.h"

#include <array>
#include <string>
#include <utility>

#include "store/json.h"

namespace sluice::store {
namespace {

constexpr std::array<DType, 15> kDTypes = {
    DType::boolean, DType::u8,  DType::i8,  DType::f8_e4m3, DType::f8_e5m2,
    DType::u16,     DType::i16, DType::f16, DType::bf16,    DType::u32,
    DType::i32,     DType::f32, DType::u64, DType::i64,     DType::f64,
};

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype : kDTypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::string known_dtypes() {
  std::string names;
  for (const DType dtype : kDTypes) {
    names += names.empty() ? "" : ", ";
    names += name_of(dtype);
  }
  return names;
}

/// Reads the entry of one tensor. Members return an error when the JSON broke off, else SUCCESS;
/// what is wrong within good JSON is a fault.
class EntryReader {
 public:
  EntryReader(std::string_view file, FaultList& faults, HeaderTensor& tensor)
      : file_(file), faults_(faults), tensor_(tensor) {}

  simdjson::error_code read(ondemand::value value) {
    ondemand::object object;
    const auto wrong = value.get_object().get(object);
    if (wrong == simdjson::INCORRECT_TYPE) {
      fault("expected an object with dtype, shape and data_offsets, found {}", shown_json(value));
      return simdjson::SUCCESS;
    }
    if (wrong) return wrong;
    for (auto result : object) {
      ondemand::field field;
      if (const auto error = std::move(result).get(field)) return error;
      std::string_view key;
      if (const auto error = key_of(field, key)) return error;
      if (const auto error = read_key(key, field.value())) return error;
    }
    finish();
    return simdjson::SUCCESS;
  }

 private:
  struct Key {
    enum Value : unsigned { dtype = 1, shape = 2, offsets = 4 };
  };

  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    sound_ = false;
    faults_.add(file_, "tensor {}: {}; the file is damaged, download it again", shown(tensor_.name),
                fmt::format(format, std::forward<Args>(args)...));
  }

  simdjson::error_code read_key(std::string_view key, ondemand::value value) {
    if (key == "dtype" && once(Key::dtype, key)) return read_dtype(value);
    if (key == "shape" && once(Key::shape, key)) return read_shape(value);
    if (key == "data_offsets" && once(Key::offsets, key)) return read_offsets(value);
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fault("expected the keys dtype, shape and data_offsets, found {}", shown(key));
    }
    return simdjson::SUCCESS;
  }

  bool once(Key::Value key, std::string_view name) {
    if (seen_ & key) fault("expected one {}, found two", name);
    const bool first = !(seen_ & key);
    seen_ |= key;
    return first;
  }

  simdjson::error_code read_dtype(ondemand::value value) {
    std::string_view text;
    const auto error = text_of(value, text);
    if (error == simdjson::INCORRECT_TYPE) {
      fault("dtype: expected a string, found {}", shown_json(value));
      return simdjson::SUCCESS;
    }
    if (error) return error;
    if (const auto dtype = dtype_named(text)) {
      tensor_.dtype = *dtype;
    } else {
      sound_ = false;
      faults_.add(file_,
                  "tensor {}: dtype {} is not known; expected one of {}; download a release of the "
                  "model in "
                  "one of these",
                  shown(tensor_.name), shown(text), known_dtypes());
    }
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_shape(ondemand::value value) {
    std::size_t rank = 0;
    const auto error = read_numbers(value, "shape", [&](std::uint64_t number) {
      if (rank < kMaxDimensions) tensor_.shape.size[rank] = number;
      ++rank;
    });
    if (rank > kMaxDimensions) {
      fault("shape: expected at most {} dimensions, found {}", kMaxDimensions, rank);
    }
    tensor_.shape.rank = static_cast<std::uint8_t>(std::min(rank, kMaxDimensions));
    return error;
  }

  simdjson::error_code read_offsets(ondemand::value value) {
    std::size_t count = 0;
    const bool sound_before = std::exchange(sound_, true);
    const auto error = read_numbers(value, "data_offsets", [&](std::uint64_t number) {
      if (count < 2) (count == 0 ? tensor_.begin : tensor_.end) = number;
      ++count;
    });
    if (error) return error;
    if (sound_ && count != 2) {
      fault("data_offsets: expected two numbers, begin and end, found {}", count);
    } else if (sound_ && tensor_.begin > tensor_.end) {
      fault("data_offsets: expected begin <= end, found [{}, {}]", tensor_.begin, tensor_.end);
    }
    sound_ = sound_ && sound_before;
    return simdjson::SUCCESS;
  }

  simdjson::error_code read_numbers(ondemand::value value, std::string_view what,
                                    FunctionRef<void(std::uint64_t)> take) {
    ondemand::array array;
    const auto wrong = value.get_array().get(array);
    if (wrong == simdjson::INCORRECT_TYPE) {
      fault("{}: expected a list of whole numbers, found {}", what, shown_json(value));
      return simdjson::SUCCESS;
    }
    if (wrong) return wrong;
    for (auto result : array) {
      ondemand::value element;
      if (const auto error = std::move(result).get(element)) return error;
      std::uint64_t number = 0;
      if (element.get_uint64().get(number)) {
        fault("{}: expected whole numbers from 0 to 2^64-1, found {}", what, shown_json(element));
      }
      take(number);
    }
    return simdjson::SUCCESS;
  }

  void finish() {
    for (const auto& [key, name] : {std::pair(Key::dtype, "dtype"), std::pair(Key::shape, "shape"),
                                    std::pair(Key::offsets, "data_offsets")}) {
      if (!(seen_ & key)) fault("expected a {}, found none", name);
    }
    if (!sound_) return;
    const auto bytes = tensor_bytes(tensor_.dtype, tensor_.shape);
    const std::uint64_t span = tensor_.end - tensor_.begin;
    if (!bytes) {
      fault("shape {}: the size in bytes exceeds 64 bits", to_string(tensor_.shape));
    } else if (*bytes != span) {
      fault("data_offsets [{}, {}]: expected {} bytes for {} {}, found {}", tensor_.begin,
            tensor_.end, *bytes, name_of(tensor_.dtype), to_string(tensor_.shape), span);
    }
    tensor_.sound = sound_;
  }

  std::string_view file_;
  FaultList& faults_;
  HeaderTensor& tensor_;
  unsigned seen_ = 0;
  bool sound_ = true;
};

/// `__metadata__` holds strings that mean nothing to an engine.
simdjson::error_code check_metadata(ondemand::value value, std::string_view file,
                                    FaultList& faults) {
  ondemand::object object;
  const auto wrong = value.get_object().get(object);
  if (wrong == simdjson::INCORRECT_TYPE) {
    faults.add(file, "__metadata__: expected an object, found {}", shown_json(value));
    return simdjson::SUCCESS;
  }
  if (wrong) return wrong;
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return error;
    std::string_view key, text;
    if (const auto error = key_of(field, key)) return error;
    const auto error = text_of(field.value(), text);
    if (error == simdjson::INCORRECT_TYPE) {
      faults.add(file, "__metadata__: key {}: expected a string, found {}", shown(key),
                 shown_json(field.value()));
    } else if (error) {
      return error;
    }
  }
  return simdjson::SUCCESS;
}

simdjson::error_code read_entries(ondemand::document& document, std::string_view file,
                                  FaultList& faults, FunctionRef<void(const HeaderTensor&)> visit) {
  ondemand::object root;
  if (const auto error = document.get_object().get(root)) return error;
  for (auto result : root) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return error;
    HeaderTensor tensor;
    if (const auto error = key_of(field, tensor.name)) return error;
    const ondemand::value value = field.value();
    if (tensor.name == "__metadata__") {
      if (const auto error = check_metadata(value, file, faults)) return error;
      continue;
    }
    if (const auto error = EntryReader(file, faults, tensor).read(value)) return error;
    visit(tensor);
  }
  return at_end(document) ? simdjson::SUCCESS : simdjson::TRAILING_CONTENT;
}

}  // namespace

std::optional<std::uint64_t> tensor_bytes(DType dtype, const Shape& shape) {
  bool empty = false;
  for (const std::uint64_t size : shape.sizes()) empty = empty || size == 0;
  if (empty) return 0;  // also where the other dimensions alone would not fit
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape.sizes()) {
    if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / elements_of(dtype), bytes_of(dtype), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

struct HeaderParser::State {
  ondemand::parser parser;
};

HeaderParser::HeaderParser() : state_(std::make_unique<State>()) {}
HeaderParser::~HeaderParser() = default;

bool HeaderParser::parse(const PaddedText& header, std::string_view file, FaultList& faults,
                         FunctionRef<void(const HeaderTensor&)> visit) {
  const std::string problem = parse_document(state_->parser, header, [&](auto& document) {
    return read_entries(document, file, faults, visit);
  });
  if (problem.empty()) return true;
  faults.add(file,
             "the header is not a valid JSON object ({}); the file is damaged, download it again",
             problem);
  return false;
}

}  // namespace sluice::store
