package store

const crashPath = "BRIDGES_CRASH_PATH" // set for the process that is killed

func workUntilKilled(string) {}
