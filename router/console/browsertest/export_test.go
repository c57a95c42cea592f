package browsertest

// Pid returns the number of the running browser's process.
func Pid() int {
	mu.Lock()
	defer mu.Unlock()
	return running.process.Pid()
}
