// Errors are values. Every function that can meet bad input or a failing drive returns Result<T>.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace sluice {

/// What went wrong, in the terms that decide the program's exit code.
enum class ErrorKind {
  usage,        ///< a flag or an argument is wrong (exit 2)
  model_files,  ///< a file of the model is missing, damaged or not understood (exit 3)
  memory,       ///< the work does not fit into the memory budget (exit 4)
  drive,        ///< a drive failed, or a file changed while it was in use (exit 5)
  number,       ///< a number went bad: NaN or infinity where none may be (exit 6)
  interrupted,  ///< the user or the caller asked to stop (exit 130)
};

/// `message` is one sentence or a list of them: what is wrong, where, and what to do.
struct Error {
  ErrorKind kind;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// The program's exit code for an error of this kind.
constexpr int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::model_files:
      return 3;
    case ErrorKind::memory:
      return 4;
    case ErrorKind::drive:
      return 5;
    case ErrorKind::number:
      return 6;
    case ErrorKind::interrupted:
      return 130;
  }
  return 1;
}

/// Makes an error to return: `return fail(ErrorKind::drive, "{}: read failed", path);`
template <class... Args>
tl::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace sluice

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)

/// Returns the error of `expression` (a Status or Result) from the enclosing function, if any.
#define SLUICE_TRY(expression)                                                   \
  do {                                                                           \
    auto sluice_status = (expression);                                           \
    if (!sluice_status) return tl::unexpected(std::move(sluice_status).error()); \
  } while (false)

/// `SLUICE_ASSIGN(auto file, open(path));` declares `file`, or returns the error of open().
#define SLUICE_ASSIGN(declaration, expression) \
  SLUICE_ASSIGN_NAMED(SLUICE_CONCAT(sluice_result_, __LINE__), declaration, expression)
#define SLUICE_ASSIGN_NAMED(name, declaration, expression)   \
  auto name = (expression);                                  \
  if (!name) return tl::unexpected(std::move(name).error()); \
  declaration = std::move(*name)
