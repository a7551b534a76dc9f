package authn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"time"

	"fairway/internal/state"
)

// joinPrefix is where a store keeps tokens, a record each.
const joinPrefix = "join/"

// mostToken is how many bytes a token's record has at most.
const mostToken = 16 << 10

// tokenName is the form of a token's name; a remote caller may send anything.
var tokenName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// NewSharedJoinTokens keeps tokens in a store of several control planes: each is used up once over all of them.
func NewSharedJoinTokens(in *state.Shared, now func() time.Time, log *slog.Logger) *JoinTokens {
	return &JoinTokens{kept: tokenRecords{in}, now: now, log: log}
}

// tokenRecords keeps each token in a record of its own.
type tokenRecords struct{ in *state.Shared }

// errJoinStore is the only error about a store that a remote caller gets.
var errJoinStore = fmt.Errorf("%w: the control plane's store of join tokens does not answer, so it cannot know whether this one was used; "+
	"try again when it does", ErrUnavailable)

func (tokenRecords) away() error { return errJoinStore }

func (t tokenRecords) known(name string) (*keptToken, error) {
	if !tokenName.MatchString(name) {
		return nil, nil
	}
	text, err := t.in.Record(joinPrefix+name, mostToken)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return tokenOf(text)
}

func tokenOf(text []byte) (*keptToken, error) {
	out := &keptToken{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("a join token in the store is damaged: %w", err)
	}
	return out, nil
}

func (t tokenRecords) all() ([]keptToken, error) {
	var bad error
	all, err := t.in.Records(joinPrefix, mostToken, func(name string, err error) { bad = fmt.Errorf("%s: %w", name, err) })
	if err != nil {
		return nil, err
	}
	var out []keptToken
	for _, text := range all {
		one, err := tokenOf(text)
		if err != nil {
			return nil, err
		}
		out = append(out, *one)
	}
	return out, bad
}

func (t tokenRecords) change(name string, do func(*keptToken) (*keptToken, error)) error {
	if !tokenName.MatchString(name) {
		_, err := do(nil)
		return err
	}
	err := t.in.Change(joinPrefix+name, mostToken, func(old []byte) ([]byte, error) {
		var was *keptToken
		if old != nil {
			var err error
			if was, err = tokenOf(old); err != nil {
				return nil, err
			}
		}
		now, err := do(was)
		if err != nil || now == nil {
			return nil, err
		}
		return json.Marshal(now)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// cleanEvery is how often tokens that ended long ago are removed.
const cleanEvery = time.Hour

// Clean removes tokens from a store once they have ended long ago, until ctx ends; the control plane that writes does it.
func (j *JoinTokens) Clean(ctx context.Context) error {
	t, is := j.kept.(tokenRecords)
	if !is {
		return nil
	}
	tick := time.NewTicker(cleanEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := j.clean(t.in); err != nil {
			j.log.Warn("join tokens that have ended are not removed yet", "error", err)
		}
	}
}

func (j *JoinTokens) clean(in *state.Shared) error {
	old := j.now().Add(-joinMemory)
	return in.Alone(func(remove func(string) error) error {
		all, err := j.kept.all()
		if err != nil {
			return err
		}
		for _, t := range all {
			if !t.Expires.Before(old) {
				continue
			}
			if err := remove(joinPrefix + t.Name); err != nil && !errors.Is(err, state.ErrConflict) {
				return err
			}
		}
		return nil
	})
}
