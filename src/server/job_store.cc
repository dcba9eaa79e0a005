#include "server/job_store.h"

#include "server/job_rows.h"
#include "server/state_folder.h"

namespace sluice::server {
namespace {

constexpr const char* kTables = R"(
  CREATE TABLE IF NOT EXISTS files(
    id TEXT PRIMARY KEY, name TEXT NOT NULL, purpose TEXT NOT NULL, created INTEGER NOT NULL,
    content TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS batches(
    id TEXT PRIMARY KEY, endpoint TEXT NOT NULL, input_file TEXT NOT NULL, time_window TEXT NOT NULL,
    metadata TEXT NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0, output_file TEXT NOT NULL DEFAULT '',
    error_file TEXT NOT NULL DEFAULT '');
  CREATE TABLE IF NOT EXISTS jobs(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, batch TEXT NOT NULL,
    custom_id TEXT NOT NULL, endpoint TEXT NOT NULL, body TEXT NOT NULL, status TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, progress INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    http_status INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL DEFAULT '');
  CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs(status, number);
  CREATE INDEX IF NOT EXISTS jobs_by_batch ON jobs(batch, number);
)";

// In the head of the file, by which it is known.
constexpr std::int64_t kApplication = 0x536c6a62;  // "Sljb"
constexpr std::int64_t kVersion = 1;

// What earlier versions made, which wrote no number, and nothing else.
constexpr std::string_view kForeign = R"(
  SELECT count(*) FROM sqlite_master WHERE type<>'index' AND NOT(type='table' AND (
    name LIKE 'sqlite%' OR name='files' AND sql LIKE '%purpose%' OR
    name='batches' AND sql LIKE '%time_window%' OR name='jobs' AND sql LIKE '%custom_id%')))";

/// Refuses a database that is not of jobs, before it is changed.
Status expect_jobs(Database& database, const std::filesystem::path& file) {
  SLUICE_ASSIGN(const std::int64_t application, database.number("PRAGMA application_id"));
  SLUICE_ASSIGN(const std::int64_t version, database.number("PRAGMA user_version"));
  if (application == kApplication && version <= kVersion) return {};
  if (application == kApplication) {
    return fail(ErrorKind::usage,
                "--state-dir: {}: is of a later version of Sluice: {}, and this one knows {}; give "
                "another folder",
                file.string(), version, kVersion);
  }
  SLUICE_ASSIGN(const std::int64_t foreign, database.number(kForeign));
  if (application == 0 && version == 0 && foreign == 0) return {};
  return fail(ErrorKind::usage,
              "--state-dir: {}: is a database of another program; give another folder",
              file.string());
}

/// Nobody else may read what is there, either.
Status make_private_files(const std::filesystem::path& database) {
  SLUICE_TRY(make_private_file(database));
  // SQLite gives files that it makes beside it the same rights, but leaves those that are there.
  for (const char* const beside : {"-wal", "-shm", "-journal"}) {
    std::filesystem::path path = database;
    path += beside;
    std::error_code error;
    if (std::filesystem::exists(path, error)) SLUICE_TRY(make_private_file(path));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<JobStore>> JobStore::open(const std::filesystem::path& folder,
                                                 std::int64_t most_bytes) {
  SLUICE_TRY(make_state_folder(folder));
  const std::filesystem::path file = folder / "jobs.sqlite";
  SLUICE_TRY(make_private_files(file));
  SLUICE_ASSIGN(Database database,
                Database::open(file, [&](Database& each) { return expect_jobs(each, file); }));
  std::unique_ptr<JobStore> store(new JobStore(std::move(database), most_bytes));
  SLUICE_TRY(store->prepare_tables());
  return store;
}

Status JobStore::prepare_tables() {
  SLUICE_ASSIGN(Transaction transaction, Transaction::begin(database_));
  SLUICE_TRY(database_.run(kTables));
  SLUICE_TRY(add_column_of_progress());
  SLUICE_TRY(database_.run(fmt::format("PRAGMA application_id={}", kApplication).c_str()));
  SLUICE_TRY(database_.run(fmt::format("PRAGMA user_version={}", kVersion).c_str()));
  SLUICE_TRY(database_.run("UPDATE jobs SET status='waiting' WHERE status='running'"));
  return transaction.commit();
}

/// Folders of earlier versions have jobs without it.
Status JobStore::add_column_of_progress() {
  SLUICE_ASSIGN(Statement column, database_.prepare("SELECT 1 FROM pragma_table_info('jobs') WHERE "
                                                    "name='progress'"));
  SLUICE_ASSIGN(const bool is_there, column.next());
  if (is_there) return {};
  return database_.run("ALTER TABLE jobs ADD COLUMN progress INTEGER NOT NULL DEFAULT 0");
}

Status JobStore::add_job(const StoredJob& job) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement row,
                database_.prepare("INSERT INTO jobs(id, batch, custom_id, endpoint, body, status, "
                                  "created) VALUES(?, ?, ?, ?, ?, 'waiting', ?)"));
  return row.bind(job.id)
      .bind(job.batch)
      .bind(job.custom_id)
      .bind(job.endpoint)
      .bind(job.body)
      .bind(job.created)
      .run();
}

Result<std::optional<StoredJob>> JobStore::job(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows,
                database_.prepare(fmt::format("SELECT {} FROM jobs WHERE id=?", kJobColumns)));
  SLUICE_ASSIGN(const bool found, rows.bind(id).next());
  if (!found) return std::nullopt;
  return read_job(rows);
}

Result<bool> JobStore::remove_job(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement statement, database_.prepare("DELETE FROM jobs WHERE id=? AND batch=''"));
  SLUICE_TRY(statement.bind(id).run());
  return database_.changes() > 0;
}

Result<std::optional<StoredJob>> JobStore::begin_next() {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows,
                database_.prepare(fmt::format("UPDATE jobs SET status='running', "
                                              "attempts=attempts+1 WHERE number=(SELECT "
                                              "min(number) FROM jobs WHERE status='waiting') "
                                              "RETURNING {}",
                                              kJobColumns)));
  SLUICE_ASSIGN(const bool found, rows.next());
  if (!found) return std::nullopt;
  StoredJob job = read_job(rows);
  SLUICE_TRY(rows.run());  // the row is changed once the statement has ended
  return job;
}

Result<bool> JobStore::is_wanted(const StoredJob& job) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Statement rows,
                database_.prepare("SELECT 1 FROM jobs WHERE id=? AND status='running' AND batch "
                                  "NOT IN (SELECT id FROM batches WHERE status='cancelling')"));
  return rows.bind(job.id).next();
}

Status JobStore::note_progress(StoredJob& job, std::int64_t progress) {
  const std::scoped_lock lock(mutex_);
  job.attempts = 1;
  job.progress = progress;
  SLUICE_ASSIGN(Statement update, database_.prepare("UPDATE jobs SET attempts=?, progress=? WHERE "
                                                    "id=? AND status='running'"));
  return update.bind(job.attempts).bind(job.progress).bind(job.id).run();
}

Status JobStore::finish(const StoredJob& job, bool well) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Transaction transaction, Transaction::begin(database_));
  SLUICE_ASSIGN(
      Statement update,
      database_.prepare("UPDATE jobs SET status=?, http_status=?, result=? WHERE id=? AND "
                        "status='running'"));
  SLUICE_TRY(update.bind(well ? "done" : "failed")
                 .bind(job.http_status)
                 .bind(job.result)
                 .bind(job.id)
                 .run());
  if (!job.batch.empty()) SLUICE_TRY(end_if_done(job.batch));
  return transaction.commit();
}

Status JobStore::put_back(const StoredJob& job, bool counts) {
  const std::scoped_lock lock(mutex_);
  SLUICE_ASSIGN(Transaction transaction, Transaction::begin(database_));
  // A batch that was cancelled meanwhile does not want it back.
  SLUICE_ASSIGN(Statement update,
                database_.prepare("UPDATE jobs SET status=CASE WHEN batch IN (SELECT id FROM "
                                  "batches WHERE status='cancelling') THEN 'cancelled' ELSE "
                                  "'waiting' END, attempts=attempts-? WHERE id=? AND "
                                  "status='running'"));
  SLUICE_TRY(update.bind(counts ? 0 : 1).bind(job.id).run());
  if (!job.batch.empty()) SLUICE_TRY(end_if_done(job.batch));
  return transaction.commit();
}

}  // namespace sluice::server
