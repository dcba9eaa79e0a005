// The part of the store that is about batches, and the files that go in and come out of them.
#include <algorithm>
#include <ctime>
#include <utility>

#include "server/batch_lines.h"
#include "server/job_rows.h"

namespace sluice::server {
namespace {

// Of a file on its way to a client: what a connection's response may hold (HttpServer).
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

// A length without reading what is long: the files that Sluice makes are BLOBs.
constexpr const char* kFileColumns =
    "id, name, purpose, CASE typeof(content) WHEN 'blob' THEN length(content) ELSE "
    "length(CAST(content AS BLOB)) END, created";

constexpr const char* kBatchColumns =
    "id, endpoint, input_file, time_window, metadata, status, created, ended, output_file, "
    "error_file";

StoredFile read_file(const Statement& row) {
  return {row.text(0), row.text(1), row.text(2), row.number(3), row.number(4)};
}

}  // namespace

Status JobStore::add_file(const StoredFile& file, const std::string& content) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement insert, database_.prepare("INSERT INTO files(id, name, purpose, created, "
                                                    "content) VALUES(?, ?, ?, ?, ?)"));
  return insert.bind(file.id)
      .bind(file.name)
      .bind(file.purpose)
      .bind(file.created)
      .bind(content)
      .run();
}

Result<std::optional<StoredFile>> JobStore::file(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows,
                database_.prepare(fmt::format("SELECT {} FROM files WHERE id=?", kFileColumns)));
  SLUICE_ASSIGN(const bool found, rows.bind(id).next());
  if (!found) return std::nullopt;
  return read_file(rows);
}

Result<std::vector<StoredFile>> JobStore::files() {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows, database_.prepare(fmt::format(
                                    "SELECT {} FROM files ORDER BY created DESC, rowid DESC "
                                    "LIMIT 10000",
                                    kFileColumns)));
  std::vector<StoredFile> files;
  while (true) {
    SLUICE_ASSIGN(const bool more, rows.next());
    if (!more) return files;
    files.push_back(read_file(rows));
  }
}

StoredContent::~StoredContent() {
  const std::scoped_lock lock(store_);
  blob_.reset();
}

Result<std::string> StoredContent::next() {
  std::string piece(std::min(kPieceBytes, bytes_ - read_), '\0');
  const std::scoped_lock lock(store_);
  SLUICE_TRY(blob_->read(piece.data(), piece.size()));
  read_ += piece.size();
  return piece;
}

/// With the lock.
Result<std::optional<Blob>> JobStore::open_file(const std::string& id) {
  SLUICE_ASSIGN(Statement rows, database_.prepare("SELECT rowid FROM files WHERE id=?"));
  SLUICE_ASSIGN(const bool found, rows.bind(id).next());
  if (!found) return std::nullopt;
  SLUICE_ASSIGN(Blob blob, database_.open_blob("files", "content", rows.number(0), false));
  return std::optional<Blob>(std::move(blob));
}

Result<std::string> JobStore::content(const std::string& file_id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(std::optional<Blob> blob, open_file(file_id));
  std::string content;
  if (!blob) return content;
  content.resize(blob->bytes());
  SLUICE_TRY(blob->read(content.data(), content.size()));
  return content;
}

Result<std::unique_ptr<StoredContent>> JobStore::open_content(const std::string& file_id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(std::optional<Blob> blob, open_file(file_id));
  if (!blob) return nullptr;
  return std::make_unique<StoredContent>(mutex_, std::move(*blob));
}

Result<bool> JobStore::remove_file(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement statement, database_.prepare("DELETE FROM files WHERE id=?"));
  SLUICE_TRY(statement.bind(id).run());
  return database_.changes() > 0;
}

Status JobStore::add_batch(const StoredBatch& batch, const std::vector<StoredJob>& jobs) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Transaction transaction, Transaction::begin(database_));
  SLUICE_ASSIGN(Statement insert,
                database_.prepare("INSERT INTO batches(id, endpoint, input_file, time_window, "
                                  "metadata, status, created) VALUES(?, ?, ?, ?, ?, ?, ?)"));
  SLUICE_TRY(insert.bind(batch.id)
                 .bind(batch.endpoint)
                 .bind(batch.input_file)
                 .bind(batch.window)
                 .bind(batch.metadata)
                 .bind(batch.status)
                 .bind(batch.created)
                 .run());
  for (const StoredJob& job : jobs) {
    SLUICE_ASSIGN(
        Statement row,
        database_.prepare("INSERT INTO jobs(id, batch, custom_id, endpoint, body, status, "
                          "created) VALUES(?, ?, ?, ?, ?, 'waiting', ?)"));
    SLUICE_TRY(row.bind(job.id)
                   .bind(job.batch)
                   .bind(job.custom_id)
                   .bind(job.endpoint)
                   .bind(job.body)
                   .bind(job.created)
                   .run());
  }
  return transaction.commit();
}

Result<JobCounts> JobStore::counts(const std::string& batch) {
  SLUICE_ASSIGN(Statement rows, database_.prepare("SELECT count(*), sum(status='done'), "
                                                  "sum(status='failed') FROM jobs WHERE batch=?"));
  SLUICE_TRY(rows.bind(batch).next());
  return JobCounts{rows.number(0), rows.number(1), rows.number(2)};
}

Result<StoredBatch> JobStore::read_batch(const Statement& row) {
  StoredBatch batch = {row.text(0), row.text(1),   row.text(2),   row.text(3), row.text(4),
                       row.text(5), row.number(6), row.number(7), row.text(8), row.text(9),
                       {}};
  SLUICE_ASSIGN(batch.counts, counts(batch.id));
  return batch;
}

Result<std::optional<StoredBatch>> JobStore::batch(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows,
                database_.prepare(fmt::format("SELECT {} FROM batches WHERE id=?", kBatchColumns)));
  SLUICE_ASSIGN(const bool found, rows.bind(id).next());
  if (!found) return std::nullopt;
  SLUICE_ASSIGN(StoredBatch batch, read_batch(rows));
  return batch;
}

Result<std::vector<StoredBatch>> JobStore::batches() {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows, database_.prepare(fmt::format(
                                    "SELECT {} FROM batches ORDER BY created DESC, rowid DESC "
                                    "LIMIT 10000",
                                    kBatchColumns)));
  std::vector<StoredBatch> batches;
  while (true) {
    SLUICE_ASSIGN(const bool more, rows.next());
    if (!more) return batches;
    SLUICE_ASSIGN(StoredBatch batch, read_batch(rows));
    batches.push_back(std::move(batch));
  }
}

Result<bool> JobStore::cancel_batch(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Transaction transaction, Transaction::begin(database_));
  SLUICE_ASSIGN(Statement update, database_.prepare("UPDATE batches SET status='cancelling' WHERE "
                                                    "id=? AND status='in_progress'"));
  SLUICE_TRY(update.bind(id).run());
  if (database_.changes() == 0) return false;
  SLUICE_ASSIGN(Statement jobs, database_.prepare("UPDATE jobs SET status='cancelled' WHERE "
                                                  "batch=? AND status='waiting'"));
  SLUICE_TRY(jobs.bind(id).run());
  SLUICE_TRY(end_if_done(id));
  SLUICE_TRY(transaction.commit());
  return true;
}

/// Ends a batch whose jobs have all ended: its files appear together with its end.
Status JobStore::end_if_done(const std::string& batch) {
  SLUICE_ASSIGN(Statement left, database_.prepare("SELECT 1 FROM jobs WHERE batch=? AND status IN "
                                                  "('waiting', 'running') LIMIT 1"));
  SLUICE_ASSIGN(const bool goes_on, left.bind(batch).next());
  if (goes_on) return {};
  return end(batch);
}

Status JobStore::end(const std::string& batch) {
  SLUICE_ASSIGN(const auto output, write_results(batch, true));
  SLUICE_ASSIGN(const auto errors, write_results(batch, false));
  const char* const status = output && errors
                                 ? "CASE status WHEN 'cancelling' THEN 'cancelled' ELSE "
                                   "'completed' END"
                                 : "'failed'";
  SLUICE_ASSIGN(Statement end,
                database_.prepare(fmt::format("UPDATE batches SET status={}, ended=?, "
                                              "output_file=?, error_file=? WHERE id=? AND ended=0",
                                              status)));
  return end.bind(static_cast<std::int64_t>(std::time(nullptr)))
      .bind(output.value_or(""))
      .bind(errors.value_or(""))
      .bind(batch)
      .run();
}

/// Makes the file of those that went well, or of the others: its name, empty if there is no such
/// result; none if it would be too large. Many results are more than fits into memory.
Result<std::optional<std::string>> JobStore::write_results(const std::string& batch, bool well) {
  std::int64_t bytes = 0;
  SLUICE_TRY(each_result(batch, well, [&](std::string_view line) -> Status {
    bytes += static_cast<std::int64_t>(line.size());
    return {};
  }));
  if (bytes == 0) return std::string();
  if (bytes > most_bytes_) return std::nullopt;
  const std::string name = fmt::format("file-{}-{}", batch, well ? "output" : "errors");
  SLUICE_ASSIGN(Statement insert,
                database_.prepare("INSERT OR REPLACE INTO files(id, name, purpose, created, "
                                  "content) VALUES(?, ?, 'batch_output', ?, ?)"));
  SLUICE_TRY(insert.bind(name)
                 .bind(name + ".jsonl")
                 .bind(static_cast<std::int64_t>(std::time(nullptr)))
                 .bind_zeroes(bytes)
                 .run());
  SLUICE_ASSIGN(Blob content, database_.open_blob("files", "content", database_.last_row(), true));
  SLUICE_TRY(each_result(batch, well, [&](std::string_view line) { return content.write(line); }));
  return name;
}

/// Each result as a line of the file that it goes into, in the order of the requests.
Status JobStore::each_result(const std::string& batch, bool well,
                             FunctionRef<Status(std::string_view)> take) {
  SLUICE_ASSIGN(Statement rows,
                database_.prepare("SELECT id, custom_id, http_status, result FROM jobs WHERE "
                                  "batch=? AND status=? ORDER BY number"));
  rows.bind(batch).bind(well ? "done" : "failed");
  while (true) {
    SLUICE_ASSIGN(const bool more, rows.next());
    if (!more) return {};
    SLUICE_TRY(take(
        batch_result(rows.text(0), rows.text(1), static_cast<int>(rows.number(2)), rows.text(3))));
  }
}

}  // namespace sluice::server
