package journal

// Counted returns the bytes that are counted for objects and changes.
func Counted(j *Journal) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes + j.wholes.bytes
}
