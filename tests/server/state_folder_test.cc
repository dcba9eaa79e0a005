// The folder of what outlives a server: nobody else's to read, and no folder of something else.
#include "server/state_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <string_view>

#include "server/folder.h"
#include "server/job_store.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

/// What others than the owner may do by default, as most systems have it.
class StateFolder : public ::testing::Test {
 protected:
  StateFolder() : mask_(::umask(022)) {}
  ~StateFolder() override { ::umask(mask_); }

  static mode_t mode_of(const fs::path& path) {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
  /// Of all files in the folder; 0600 if there is none.
  static mode_t modes_in(const fs::path& folder) {
    mode_t all = 0600;
    for (const auto& each : fs::directory_iterator(folder)) all |= mode_of(each.path());
    return all;
  }

  const Folder folder_;

 private:
  const mode_t mask_;
};

StoredJob some_job() {
  StoredJob job;
  job.id = "1";
  job.endpoint = "/v1/completions";
  job.body = "{}";
  return job;
}

TEST_F(StateFolder, IsItsOwnersAlone) {
  for (const char* name : {"state", "slash/", "deep/er/state"}) {
    const fs::path path = folder_.path() / name;
    const auto store = JobStore::open(path);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->add_job(some_job()));
    EXPECT_EQ(mode_of(path), 0700u) << name;
    EXPECT_EQ(modes_in(path), 0600u) << name;
    EXPECT_TRUE(fs::exists(path / "jobs.sqlite-wal"));
  }
}

TEST_F(StateFolder, WhatEarlierVersionsLeftOpenIsClosed) {
  const fs::path path = folder_.path() / "state";
  { ASSERT_TRUE(JobStore::open(path)); }
  ::chmod(path.c_str(), 0755);
  std::ofstream(path / "jobs.sqlite-wal").close();  // as a crash leaves it
  for (const auto& each : fs::directory_iterator(path)) ::chmod(each.path().c_str(), 0644);
  const auto store = JobStore::open(path);
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE((*store)->add_job(some_job()));
  EXPECT_EQ(modes_in(path), 0600u);
  EXPECT_EQ(mode_of(path), 0755u) << "the folder is the user's, who may have other uses for it";
}

TEST_F(StateFolder, HasAFileWhereTheDatabaseIs) {
  ::mkfifo((folder_.path() / "jobs.sqlite").c_str(), 0600);
  const auto store = JobStore::open(folder_.path());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::usage);
  EXPECT_NE(store.error().message.find("jobs.sqlite: is there and is no file"), std::string::npos)
      << store.error().message;
}

/// What is said of the folder.
std::string refusal_of(const fs::path& folder, ErrorKind kind = ErrorKind::usage) {
  const auto store = JobStore::open(folder);
  if (store) return "nothing";
  EXPECT_EQ(store.error().kind, kind);
  EXPECT_NE(store.error().message.find(folder.string()), std::string::npos);
  return store.error().message;
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(StateFolder, OfAModelIsRefusedAndLeftAlone) {
  for (const char* name : {"config.json", "model.safetensors", "some.gguf"}) {
    const Folder folder;
    std::ofstream(folder.path() / name) << "x";
    const std::string said = refusal_of(folder.path());
    EXPECT_TRUE(holds(said, "holds a model (" + std::string(name) + ")")) << said;
    EXPECT_FALSE(fs::exists(folder.path() / "jobs.sqlite"));
  }
}

TEST_F(StateFolder, WithADatabaseOfOthersIsRefusedAndLeftAlone) {
  for (const char* foreign :
       {"CREATE TABLE songs(id TEXT)", "CREATE TABLE files(id TEXT)", "PRAGMA user_version=99",
        "PRAGMA application_id=7", "CREATE VIEW jobs AS SELECT 1 AS custom_id"}) {
    const Folder folder;
    const fs::path file = folder.path() / "jobs.sqlite";
    { ASSERT_TRUE(std::move(*Database::open(file)).run(foreign)); }
    const std::string said = refusal_of(folder.path());
    EXPECT_TRUE(holds(said, "is a database of another program")) << foreign << said;
    Database same = std::move(*Database::open(file));
    EXPECT_EQ(*same.number("SELECT count(*) FROM sqlite_master WHERE name='batches'"), 0);
  }
}

TEST_F(StateFolder, OfALaterVersionIsRefused) {
  { ASSERT_TRUE(JobStore::open(folder_.path())); }
  {
    Database later = std::move(*Database::open(folder_.path() / "jobs.sqlite"));
    EXPECT_EQ(*later.number("PRAGMA user_version"), 1);
    ASSERT_TRUE(later.run("PRAGMA user_version=2"));
  }
  const std::string said = refusal_of(folder_.path());
  EXPECT_TRUE(holds(said, "is of a later version of Sluice: 2, and this one knows 1")) << said;
}

TEST_F(StateFolder, WhatIsNoDatabaseOrDamagedIsNamed) {
  const fs::path file = folder_.path() / "jobs.sqlite";
  std::ofstream(file) << std::string(5000, 'x');
  EXPECT_TRUE(holds(refusal_of(folder_.path()), "is no database of jobs; move it away"));
  fs::remove(file);
  { ASSERT_TRUE(JobStore::open(folder_.path())); }
  fs::resize_file(file, 4096);  // the tables' pages are gone
  const std::string said = refusal_of(folder_.path(), ErrorKind::drive);
  EXPECT_TRUE(holds(said, "jobs.sqlite: the database of jobs is damaged")) << said;
}

TEST_F(StateFolder, SaysThatItsDriveIsFull) {
  Database full = std::move(*Database::open(folder_.path() / "other.sqlite"));
  ASSERT_TRUE(full.run("CREATE TABLE t(x); PRAGMA max_page_count=2"));
  const Status status = full.run("INSERT INTO t VALUES(zeroblob(100000))");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::drive);
  EXPECT_TRUE(holds(status.error().message, "other.sqlite: the database of jobs cannot grow"))
      << status.error().message;
}

}  // namespace
}  // namespace sluice::server
