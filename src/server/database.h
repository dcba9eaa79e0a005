// SQLite, with errors as values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

struct sqlite3;
struct sqlite3_blob;
struct sqlite3_stmt;

namespace sluice::server {

/// One statement, prepared. Parameters are bound in order; where that fails, next() and run() do.
class Statement {
 public:
  Statement(Statement&& other) noexcept
      : statement_(std::exchange(other.statement_, nullptr)),
        bound_(other.bound_),
        failed_(other.failed_) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  Statement& bind_null();
  /// A BLOB of so many bytes, for a Blob to fill.
  Statement& bind_zeroes(std::int64_t bytes);

  /// The next row; false at the end.
  Result<bool> next();
  /// To the end, for statements without rows.
  Status run();

  std::string text(int column) const;
  std::int64_t number(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Error error() const;
  Statement& bound(int code);

  sqlite3_stmt* statement_;
  int bound_ = 0;
  int failed_ = 0;  // the first binding's code that did
};

/// A long value, in pieces: it is never in memory as a whole.
class Blob {
 public:
  Blob(Blob&& other) noexcept
      : handle_(other.handle_), blob_(std::exchange(other.blob_, nullptr)), at_(other.at_) {}
  Blob& operator=(Blob&&) = delete;
  ~Blob();

  std::size_t bytes() const;
  /// What follows the last piece. All pieces together must fit.
  Status write(std::string_view piece);
  Status read(char* piece, std::size_t bytes);

 private:
  friend class Database;
  Blob(sqlite3* handle, sqlite3_blob* blob) : handle_(handle), blob_(blob) {}

  sqlite3* handle_;
  sqlite3_blob* blob_;
  std::size_t at_ = 0;
};

/// A database file that survives a crash of the process or the machine at any moment: what was
/// committed is there, what was not is not. Not thread-safe.
class Database {
 public:
  /// Fails with ErrorKind::drive if the file cannot be had or is damaged, with ErrorKind::usage if
  /// it is something else, and as `check` does, which sees it before anything is changed.
  static Result<Database> open(
      const std::filesystem::path& file,
      FunctionRef<Status(Database&)> check = [](Database&) { return Status(); });
  Database(Database&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Database& operator=(Database&&) = delete;
  ~Database();

  Result<Statement> prepare(std::string_view sql);
  Status run(const char* sql);
  /// The first number of the first row; 0 if there is none.
  Result<std::int64_t> number(std::string_view sql);
  /// A TEXT or BLOB of the row with this rowid.
  Result<Blob> open_blob(const char* table, const char* column, std::int64_t row, bool writable);
  /// The rowid of the last row that was inserted.
  std::int64_t last_row() const;
  /// Rows that the last statement changed.
  std::int64_t changes() const;

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}

  sqlite3* handle_;
};

/// Everything until commit() happens together, or not at all.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace sluice::server
