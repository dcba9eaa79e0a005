#include "text/token_constraint.h"

#include <algorithm>
#include <utility>

namespace sluice::text {
namespace {

// Of a state that can be read in many ways; of these, one is kept at most.
constexpr std::size_t kLongKey = 1024;

}  // namespace

TokenConstraint::TokenConstraint(std::shared_ptr<const Grammar> grammar, const TokenIndex& index,
                                 std::span<const std::int32_t> end_ids)
    : grammar_(std::move(grammar)),
      index_(&index),
      end_ids_(end_ids.begin(), end_ids.end()),
      state_(*grammar_),
      next_(*grammar_) {}

Result<const TokenMask*> TokenConstraint::allowed() {
  std::string key = state_.key();
  auto found = masks_.find(key);
  if (found == masks_.end()) {
    TokenMask mask(index_->tokenizer().vocabulary());
    if (!find(mask)) {
      return fail(ErrorKind::usage, "the JSON schema can be read in too many ways at once");
    }
    if (mask.none()) {
      return fail(ErrorKind::usage, "no token of the model's vocabulary goes on with the JSON");
    }
    if (masks_.size() + inside_.size() >= kMostMasks || key.size() > kLongKey) {
      masks_.clear();
      inside_.clear();
    }
    found = masks_.emplace(std::move(key), std::move(mask)).first;
  }
  return &found->second;
}

bool TokenConstraint::find(TokenMask& mask) {
  if (!find_text(mask)) return false;
  const auto& markers = grammar_->markers();
  for (std::size_t i = 0; i < markers.size(); ++i) {
    if (state_.step(static_cast<Symbol>(kMarker + i), next_)) mask.allow(markers[i]);
  }
  if (state_.may_end()) {
    const std::size_t tokens = index_->tokenizer().vocabulary();
    for (const std::int32_t id : end_ids_) {
      if (static_cast<std::size_t>(id) < tokens) mask.allow(id);
    }
  }
  return true;
}

/// The ordinary tokens. Inside a string, nearly all of a vocabulary fits, whatever the string is a
/// part of; so that much is found once.
bool TokenConstraint::find_text(TokenMask& mask) {
  const GrammarNode* leaf = state_.only_leaf();
  if (leaf == nullptr || leaf->kind != GrammarNode::Kind::string)
    return index_->allow(state_, mask);
  std::string key = state_.leaf_key();
  auto found = inside_.find(key);
  if (found == inside_.end()) {
    TokenMask inside(index_->tokenizer().vocabulary());
    if (!index_->allow_unquoted(state_, inside)) return false;
    found = inside_.emplace(std::move(key), std::move(inside)).first;
  }
  mask.add(found->second);
  return index_->allow_quoted(state_, mask);
}

bool TokenConstraint::ends(std::int32_t id) const {
  return state_.may_end() && std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end();
}

Status TokenConstraint::push(std::int32_t id) {
  const auto& markers = grammar_->markers();
  const auto marker = std::find(markers.begin(), markers.end(), id);
  bool fits = true;
  if (marker != markers.end()) {
    fits = state_.step(static_cast<Symbol>(kMarker + (marker - markers.begin())), next_);
    std::swap(state_, next_);
  } else {
    for (const char byte : index_->tokenizer().bytes_of(id)) {
      fits = fits && state_.step(static_cast<unsigned char>(byte), next_);
      std::swap(state_, next_);
    }
  }
  if (!fits) return fail(ErrorKind::usage, "token {} does not fit the grammar", id);
  return {};
}

}  // namespace sluice::text
