package lasting

import "time"

// Tend looks after the sources as if it were that time.
func (s *Sources) Tend(now time.Time) { s.tend(now) }

// Interval is how often sources are looked after.
func (s *Sources) Interval() time.Duration { return s.interval() }
