#include "server/database.h"

#include <sqlite3.h>

#include <system_error>

namespace sluice::server {
namespace {

/// What the system said of a call that failed, beside SQLite's words.
std::string reason_of(sqlite3* handle) {
  const int error = sqlite3_system_errno(handle);
  std::string reason = sqlite3_errmsg(handle);
  if (error == 0) return reason;
  return fmt::format("{}: {}", reason, std::generic_category().message(error));
}

Error error_of(sqlite3* handle, int code, const std::string& reason) {
  const char* const name = sqlite3_db_filename(handle, "main");
  const std::filesystem::path file = name == nullptr ? "" : name;
  switch (code) {
    case SQLITE_BUSY:
      // Whoever has the file keeps it (see open()), so this happens when a server starts and only
      // then.
      return {ErrorKind::usage,
              fmt::format("--state-dir: {}: another sluice serve is using this folder; give this "
                          "one another, or end the other",
                          file.parent_path().string())};
    case SQLITE_NOTADB:
      return {ErrorKind::usage, fmt::format("--state-dir: {}: is no database of jobs; move it "
                                            "away, or give another folder",
                                            file.string())};
    case SQLITE_CORRUPT:
      return {ErrorKind::drive, fmt::format("{}: the database of jobs is damaged: {}; move it away "
                                            "to begin with an empty one",
                                            file.string(), reason)};
    case SQLITE_FULL:
      return {ErrorKind::drive, fmt::format("{}: the database of jobs cannot grow: its drive is "
                                            "full; make room there",
                                            file.string())};
    case SQLITE_ABORT:
      return {ErrorKind::drive,
              fmt::format("{}: what was being read was changed or removed", file.string())};
    default:
      return {
          ErrorKind::drive,
          fmt::format("{}: the database of jobs failed: {}; see whether its drive works and the "
                      "server's user may write there",
                      file.string(), reason)};
  }
}

Error error_of(sqlite3* handle) {
  return error_of(handle, sqlite3_errcode(handle), reason_of(handle));
}

}  // namespace

Statement::~Statement() { sqlite3_finalize(statement_); }

Error Statement::error() const { return error_of(sqlite3_db_handle(statement_)); }

/// Without its value a parameter would be NULL, and nobody told.
Statement& Statement::bound(int code) {
  if (failed_ == SQLITE_OK) failed_ = code;
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  return bound(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                                   SQLITE_UTF8));
}

Statement& Statement::bind(std::int64_t number) {
  return bound(sqlite3_bind_int64(statement_, ++bound_, number));
}

Statement& Statement::bind_null() { return bound(sqlite3_bind_null(statement_, ++bound_)); }

Statement& Statement::bind_zeroes(std::int64_t bytes) {
  return bound(sqlite3_bind_zeroblob64(statement_, ++bound_, static_cast<sqlite3_uint64>(bytes)));
}

Result<bool> Statement::next() {
  if (failed_ != SQLITE_OK) {
    return tl::unexpected(
        error_of(sqlite3_db_handle(statement_), failed_, sqlite3_errstr(failed_)));
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected(error());
}

Status Statement::run() {
  while (true) {
    SLUICE_ASSIGN(const bool more, next());
    if (!more) return {};
  }
}

std::string Statement::text(int column) const {
  const auto* const bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_, column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

Blob::~Blob() { sqlite3_blob_close(blob_); }

std::size_t Blob::bytes() const { return static_cast<std::size_t>(sqlite3_blob_bytes(blob_)); }

Status Blob::write(std::string_view piece) {
  const int code = sqlite3_blob_write(blob_, piece.data(), static_cast<int>(piece.size()),
                                      static_cast<int>(at_));
  if (code != SQLITE_OK) return tl::unexpected(error_of(handle_));
  at_ += piece.size();
  return {};
}

Status Blob::read(char* piece, std::size_t bytes) {
  const int code = sqlite3_blob_read(blob_, piece, static_cast<int>(bytes), static_cast<int>(at_));
  if (code != SQLITE_OK) return tl::unexpected(error_of(handle_));
  at_ += bytes;
  return {};
}

Result<Database> Database::open(const std::filesystem::path& file,
                                FunctionRef<Status(Database&)> check) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    const Error error = {ErrorKind::drive,
                         fmt::format("{}: cannot be opened: {}", file.string(),
                                     handle == nullptr ? "no memory" : sqlite3_errmsg(handle))};
    sqlite3_close(handle);
    return tl::unexpected(error);
  }
  Database database(handle);
  // A commit is on the drive when it returns. One process has the file, and keeps it.
  SLUICE_TRY(database.run("PRAGMA locking_mode=EXCLUSIVE"));
  SLUICE_TRY(check(database));
  SLUICE_TRY(database.run("PRAGMA journal_mode=WAL"));
  SLUICE_TRY(database.run("PRAGMA synchronous=FULL"));
  SLUICE_TRY(database.run("PRAGMA cache_size=-1024"));
  SLUICE_TRY(database.run("PRAGMA trusted_schema=OFF"));
  return database;
}

Database::~Database() { sqlite3_close(handle_); }

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(error_of(handle_));
  return Statement(statement);
}

Status Database::run(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return tl::unexpected(error_of(handle_));
}

Result<std::int64_t> Database::number(std::string_view sql) {
  SLUICE_ASSIGN(Statement statement, prepare(sql));
  SLUICE_ASSIGN(const bool found, statement.next());
  return found ? statement.number(0) : 0;
}

Result<Blob> Database::open_blob(const char* table, const char* column, std::int64_t row,
                                 bool writable) {
  sqlite3_blob* blob = nullptr;
  const int code = sqlite3_blob_open(handle_, "main", table, column, row, writable ? 1 : 0, &blob);
  if (code != SQLITE_OK) return tl::unexpected(error_of(handle_));
  return Blob(handle_, blob);
}

std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle_); }

std::int64_t Database::changes() const { return sqlite3_changes64(handle_); }

Result<Transaction> Transaction::begin(Database& database) {
  SLUICE_TRY(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) static_cast<void>(database_->run("ROLLBACK"));
}

Status Transaction::commit() {
  SLUICE_TRY(database_->run("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace sluice::server
