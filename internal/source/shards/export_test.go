package shards

// Kept counts all that the set keeps of rows, shards and problems.
func (s *Set) Kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.members) + len(s.problems.own) + len(s.problems.notes) + len(s.problems.noted) + len(s.problems.changed)
	n += len(s.objects.rows) + len(s.objects.in) + len(s.services.rows) + len(s.services.in) + len(s.slices.rows) + len(s.slices.in)
	return n + len(s.workloads.rows) + len(s.workloads.in)
}
