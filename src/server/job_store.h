// Files, batches and jobs that outlive the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "server/database.h"

namespace sluice::server {

struct StoredFile {
  std::string id;
  std::string name;
  std::string purpose;  ///< "batch" or "batch_output"
  std::int64_t bytes = 0;
  std::int64_t created = 0;
};

struct JobCounts {
  std::int64_t total = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
};

struct StoredBatch {
  std::string id;
  std::string endpoint;
  std::string input_file;
  std::string window;    ///< "24h"
  std::string metadata;  ///< JSON; empty: none
  /// in_progress, cancelling, completed, cancelled; failed: its results fit in no file
  std::string status;
  std::int64_t created = 0;
  std::int64_t ended = 0;  ///< 0: not yet
  std::string output_file;
  std::string error_file;
  JobCounts counts;
};

/// A request that waits for its turn, or has had it.
struct StoredJob {
  std::string id;
  std::string batch;  ///< empty: a request in the background
  std::string custom_id;
  std::string endpoint;
  std::string body;
  std::string status;         ///< waiting, running, done, failed, cancelled
  std::int64_t attempts = 0;  ///< how often it was begun since it last came on
  std::int64_t progress = 0;  ///< how far it had come by then
  std::int64_t created = 0;
  int http_status = 0;  ///< of the result
  std::string result;   ///< JSON
};

/// What is in a file, piece by piece, while others use the store. It must outlive this.
class StoredContent {
 public:
  StoredContent(std::mutex& store, Blob blob) : store_(store), blob_(std::move(blob)) {}
  ~StoredContent();
  StoredContent(const StoredContent&) = delete;
  StoredContent& operator=(const StoredContent&) = delete;

  std::size_t bytes() const { return bytes_; }
  /// What follows the last piece, as long as there is something. ErrorKind::drive, also if the file
  /// was removed meanwhile.
  Result<std::string> next();

 private:
  std::mutex& store_;
  std::optional<Blob> blob_;  // used, and ended, with the lock
  const std::size_t bytes_ = blob_->bytes();
  std::size_t read_ = 0;
};

/// Thread-safe. Errors are ErrorKind::drive.
class JobStore {
 public:
  /// Of a file, and of a result: SQLite takes rows of up to 10^9 bytes.
  static constexpr std::int64_t kMostBytes = 900'000'000;

  /// Opens or makes `folder`/jobs.sqlite. What was running when the process ended waits again.
  /// ErrorKind::usage if something else lies there.
  static Result<std::unique_ptr<JobStore>> open(const std::filesystem::path& folder,
                                                std::int64_t most_bytes = kMostBytes);

  Status add_file(const StoredFile& file, const std::string& content);
  Result<std::optional<StoredFile>> file(const std::string& id);
  Result<std::vector<StoredFile>> files();
  /// All of it: of a file that came with a request.
  Result<std::string> content(const std::string& file_id);
  /// nullptr if there is no such file.
  Result<std::unique_ptr<StoredContent>> open_content(const std::string& file_id);
  Result<bool> remove_file(const std::string& id);

  /// A batch and all of its jobs, or nothing.
  Status add_batch(const StoredBatch& batch, const std::vector<StoredJob>& jobs);
  Result<std::optional<StoredBatch>> batch(const std::string& id);
  Result<std::vector<StoredBatch>> batches();
  /// Its jobs that wait will not be done. False if it has ended already.
  Result<bool> cancel_batch(const std::string& id);

  Status add_job(const StoredJob& job);
  Result<std::optional<StoredJob>> job(const std::string& id);
  /// A request in the background goes, with its result. False if there is none.
  Result<bool> remove_job(const std::string& id);

  /// The oldest that waits, begun: `attempts` counts this one.
  Result<std::optional<StoredJob>> begin_next();
  /// False if the job that was begun has been removed since, or its batch is being cancelled.
  Result<bool> is_wanted(const StoredJob& job);
  /// The job has come on since it was last begun: this attempt is the first from here.
  Status note_progress(StoredJob& job, std::int64_t progress);
  /// The result, and with the last job of a batch the batch's end and its files, all at once.
  Status finish(const StoredJob& job, bool well);
  /// Back to wait. `counts`: the attempt was one.
  Status put_back(const StoredJob& job, bool counts);

 private:
  JobStore(Database database, std::int64_t most_bytes)
      : most_bytes_(most_bytes), database_(std::move(database)) {}
  Status prepare_tables();
  Status add_column_of_progress();
  Status end_if_done(const std::string& batch);
  Status end(const std::string& batch);
  Result<std::optional<std::string>> write_results(const std::string& batch, bool well);
  Status each_result(const std::string& batch, bool well,
                     FunctionRef<Status(std::string_view)> take);
  Result<JobCounts> counts(const std::string& batch);
  Result<StoredBatch> read_batch(const Statement& row);
  Result<std::optional<Blob>> open_file(const std::string& id);

  const std::int64_t most_bytes_;
  std::mutex mutex_;
  Database database_;
};

}  // namespace sluice::server
