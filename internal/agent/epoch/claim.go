package epoch

import (
	"errors"
	"fmt"
)

func (s *Supervisor) bases() bases { return bases{memory: s.o.Memory, own: s.o.Dir} }

// claim claims the base id that was requested, else a free one. The next time, after a crash, it claims another one. Other users
// cannot keep Envoy from starting by taking names: if no base id is free, the family is nil, and Envoy starts without hot restart.
func (s *Supervisor) claim() (*family, error) {
	if asked := s.o.BaseID; asked != nil && s.nextBase == 0 {
		f, err := s.bases().claim(*asked)
		taken := (*baseIDInUseError)(nil)
		switch {
		case err == nil:
			s.nextBase = f.baseID + 1
			return f, nil
		case errors.As(err, &taken) && !taken.foreign:
			return nil, &PlanError{fmt.Errorf("%w; choose another --base-id, or leave it out", err)}
		}
		s.o.Log.Error("the requested base id is in use; a free one is used", "base_id", *asked, "error", err)
	}
	f, strangers, stranger, err := s.bases().claimAny(max(s.nextBase, 1))
	if strangers > 0 {
		s.o.Log.Warn("another user has taken names of base ids", "base_ids", strangers, "first", stranger)
	}
	if err != nil {
		s.o.Log.Error("no base id can be had: envoy starts without hot restart, and will end if the agent is killed", "error", err)
		return nil, nil
	}
	s.nextBase = f.baseID + 1
	return f, nil
}
