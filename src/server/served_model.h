// The model as requests see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/drive_limits.h"
#include "server/grammar_room.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace sluice::server {

struct ServedModel {
  std::string name;  ///< "k3-nano"
  const text::Tokenizer* tokenizer = nullptr;
  std::optional<text::ChatFormat> format;  ///< none: no chat
  std::size_t context = 0;                 ///< positions: prompt and answer together
  std::size_t vocabulary = 0;
  const GrammarRoom* grammars = nullptr;
  std::int64_t created = 0;  ///< when it was loaded, seconds since 1970
  std::vector<DriveLimit> drive_limits;
};

}  // namespace sluice::server
