#include "text/normalizer.h"

#include <utility>

#include "text/utf8.h"

namespace sluice::text {
namespace {

// A text may grow by what is put in; beyond this, somebody made a file for it.
constexpr std::size_t kMostGrowth = 64;

std::string_view without_left_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Character character = read_utf8(text, at);
    if (!is_white_space(character.code)) break;
    at += character.size;
  }
  return text.substr(at);
}

std::string_view without_right_space(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = read_utf8(text, at);
    at += character.size;
    if (!is_white_space(character.code)) end = at;
  }
  return text.substr(0, end);
}

Result<std::string> applied(NormalForm form, const std::string& text, bool) {
  return in_normal_form(form, text);
}
Result<std::string> applied(const Normalizer::Prepend& step, std::string text, bool begins) {
  const bool wanted = !text.empty() && (begins || !step.at_begin_only) &&
                      !(step.unless_there && text.starts_with(step.text));
  return wanted ? step.text + text : std::move(text);
}
Result<std::string> applied(const Normalizer::Replace& step, const std::string& text, bool) {
  return replaced(text, step.from, step.to);
}
Result<std::string> applied(const Normalizer::ReplaceMatches& step, const std::string& text, bool) {
  std::string out;
  std::size_t from = 0;
  Expression::Search search;
  while (from < text.size()) {
    SLUICE_ASSIGN(const auto match, step.from->find(search, text, from));
    if (!match) break;
    out.append(text, from, match->begin - from);
    out += step.to;
    from = match->end;
  }
  return out.append(text, from);
}
Result<std::string> applied(const Normalizer::Strip& step, const std::string& text, bool) {
  std::string_view rest = text;
  if (step.left) rest = without_left_space(rest);
  if (step.right) rest = without_right_space(rest);
  return std::string(rest);
}

}  // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = from.empty() ? std::string_view::npos : text.find(from, at);
    const std::size_t end = found == std::string_view::npos ? text.size() : found;
    out += text.substr(at, end - at);
    if (found != std::string_view::npos) out += to;
    at = found == std::string_view::npos ? text.size() : found + from.size();
  }
  return out;
}

Result<std::string> Normalizer::apply(std::string_view utf8, bool begins) const {
  std::string text(utf8);
  for (const Step& step : steps_) {
    auto next =
        std::visit([&](const auto& each) { return applied(each, std::move(text), begins); }, step);
    if (!next) return next;
    text = std::move(*next);
    if (text.size() / kMostGrowth > utf8.size() + 1) {
      return fail(ErrorKind::model_files,
                  "the tokenizer's normalizer makes {} bytes of {}; its file is not to be trusted",
                  text.size(), utf8.size());
    }
  }
  return text;
}

std::optional<std::size_t> Normalizer::most_shrinking() const {
  // A letter of mathematics has four bytes and becomes an ASCII letter; compositions shrink less.
  constexpr std::size_t kOfNormalForms = 4;
  std::size_t most = 1;
  for (const Step& step : steps_) {
    if (std::holds_alternative<NormalForm>(step)) {
      most *= kOfNormalForms;
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      if (replace->to.empty()) return std::nullopt;
      most *= (replace->from.size() + replace->to.size() - 1) / replace->to.size();
    } else if (!std::holds_alternative<Prepend>(step)) {
      return std::nullopt;
    }
  }
  return most;
}

std::uint64_t Normalizer::memory_bytes() const {
  std::uint64_t sum = steps_.capacity() * sizeof(Step);
  for (const Step& step : steps_) {
    const auto* matches = std::get_if<ReplaceMatches>(&step);
    if (matches != nullptr) sum += matches->from->memory_bytes();
  }
  return sum;
}

}  // namespace sluice::text
