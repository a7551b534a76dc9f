package authn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fairway/internal/identity"
	"fairway/internal/identity/safefile"
)

// JoinPrefix is the prefix of every join token, so that a lost one can be recognized.
const JoinPrefix = "fwjoin."

// JoinTokens keeps one-time tokens: only their hashes, not the tokens. Several processes may share them. Each token is for one identity,
// expires, and admits one key.
type JoinTokens struct {
	kept tokenStore
	now  func() time.Time
	log  *slog.Logger
}

// tokenStore keeps tokens by their names.
type tokenStore interface {
	// known returns the token of a name, for remote callers, who may guess; nil: there is none.
	known(name string) (*keptToken, error)
	// all returns all tokens.
	all() ([]keptToken, error)
	// change replaces a token by what do makes of it, while no other process changes it; nil: there is none, or it is removed. do may be
	// called again. errUnchanged: nothing is written.
	change(name string, do func(*keptToken) (*keptToken, error)) error
	// away is the error that a remote caller gets if the tokens cannot be used.
	away() error
}

// tokenFile is a file of tokens.
type tokenFile struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	read fs.FileInfo // the file that was read last; nil: none
	last []keptToken // its tokens; not modified
}

// JoinToken is the public part of a token.
type JoinToken struct {
	Name    string      `json:"name"` // the part of the token that is not secret
	ID      identity.ID `json:"identity"`
	Expires time.Time   `json:"expires"`
	Used    time.Time   `json:"used,omitzero"` // when it was bound to a key
}

// keptToken is a token in the file.
type keptToken struct {
	JoinToken
	Hash []byte `json:"hash"`          // SHA-256 of the secret, which has 256 random bits: nothing slower is needed
	Key  []byte `json:"key,omitempty"` // SHA-256 of the public key that it is bound to
}

// longest that a token may wait for its machine, and that ended ones are listed.
const (
	maxJoinLife = 30 * 24 * time.Hour
	joinMemory  = 7 * 24 * time.Hour
)

// mostJoin bounds the file, in bytes: about 150,000 tokens.
const mostJoin = 64 << 20

// errJoinFile is the only error about an unusable file that a remote caller gets.
var errJoinFile = fmt.Errorf("%w: the control plane cannot use its list of join tokens; its log says why", ErrUnavailable)

// NewJoinTokens uses the file join-tokens.json in a folder; both need not exist yet. If the file cannot be used, the reason is logged for
// remote callers, who do not get it, and returned to users of a command.
func NewJoinTokens(dir string, now func() time.Time, log *slog.Logger) *JoinTokens {
	return &JoinTokens{kept: &tokenFile{path: filepath.Join(dir, "join-tokens.json"), now: now}, now: now, log: log}
}

// Create makes a token for an identity. This is the only time that it can be read.
func (j *JoinTokens) Create(id identity.ID, life time.Duration) (string, error) {
	if err := id.Validate(); err != nil {
		return "", err
	}
	if life <= 0 || life > maxJoinLife {
		return "", fmt.Errorf("a join token of %s: want more than 0, at most %s", life, maxJoinLife)
	}
	random := make([]byte, 6+32)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("make a join token: %w", err)
	}
	name, secret := hex.EncodeToString(random[:6]), base64.RawURLEncoding.EncodeToString(random[6:])
	err := j.kept.change(name, func(*keptToken) (*keptToken, error) {
		return &keptToken{JoinToken{Name: name, ID: id, Expires: j.now().Add(life).Truncate(time.Second)}, hash(secret), nil}, nil
	})
	return JoinPrefix + name + "." + secret, err
}

func hash(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// List returns all tokens, in order of their expiry.
func (j *JoinTokens) List() ([]JoinToken, error) {
	all, err := j.kept.all()
	var out []JoinToken
	for _, t := range all {
		out = append(out, t.JoinToken)
	}
	slices.SortFunc(out, func(a, b JoinToken) int { return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Name, b.Name)) })
	return out, err
}

// Revoke removes a token.
func (j *JoinTokens) Revoke(name string) error {
	return j.kept.change(name, func(t *keptToken) (*keptToken, error) {
		if t == nil {
			return nil, fmt.Errorf("there is no join token %q", name)
		}
		return nil, nil
	})
}

// Authenticate implements Method. The token is not used up before Bind.
func (j *JoinTokens) Authenticate(_ context.Context, c Credentials) (Caller, error) {
	rest, ok := strings.CutPrefix(c.Token, JoinPrefix)
	if !ok {
		return Caller{}, ErrNotMine
	}
	name, _, _ := strings.Cut(rest, ".")
	t, err := j.kept.known(name)
	if err != nil {
		return Caller{}, j.toCaller(err)
	}
	if err := j.check(t, rest); err != nil {
		return Caller{}, err
	}
	return Caller{ID: t.ID, By: "join token", Until: t.Expires, Bind: func(public any) error { return j.bind(rest, public) }}, nil
}

// check refuses a token that is not t, or has ended.
func (j *JoinTokens) check(t *keptToken, text string) error {
	name, secret, _ := strings.Cut(text, ".")
	if t == nil || subtle.ConstantTimeCompare(t.Hash, hash(secret)) != 1 {
		return refused("there is no such join token: it was taken away, or has ended long ago")
	}
	if now := j.now(); !now.Before(t.Expires) {
		return refused("the join token %s ended at %s; the control plane's clock says %s", name, stamp(t.Expires), stamp(now))
	}
	return nil
}

// bind uses a token up for a key.
func (j *JoinTokens) bind(text string, public any) error {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	key := hash(string(der))
	name, _, _ := strings.Cut(text, ".")
	return j.toCaller(j.kept.change(name, func(was *keptToken) (*keptToken, error) {
		if err := j.check(was, text); err != nil { // it may have gone since
			return nil, err
		}
		t := *was
		if t.Key != nil && !bytes.Equal(t.Key, key) {
			return nil, refused("the join token %s was used at %s already: each admits one machine", t.Name, stamp(t.Used))
		}
		if t.Key != nil { // by the same machine, after its answer was lost
			return nil, errUnchanged
		}
		t.Key, t.Used = key, j.now().Truncate(time.Second)
		return &t, nil
	}))
}

// toCaller returns the error that a remote caller gets: a refusal unchanged, and nothing about this machine's files.
func (j *JoinTokens) toCaller(err error) error {
	if err == nil || errors.Is(err, ErrRefused) {
		return err
	}
	j.log.Error("the join tokens cannot be used, so none is accepted", "error", err)
	return j.kept.away()
}

// settled is how old a file must be before its times show whether it changed.
const settled = 2 * time.Second

func (*tokenFile) away() error { return errJoinFile }

// known parses the file once for all remote callers, by one goroutine at a time, until it changes.
func (j *tokenFile) known(name string) (*keptToken, error) {
	all, err := j.cached()
	if i := slices.IndexFunc(all, func(t keptToken) bool { return t.Name == name }); err == nil && i >= 0 {
		return &all[i], nil
	}
	return nil, err
}

func (j *tokenFile) cached() ([]keptToken, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	is, err := os.Stat(j.path)
	same := err == nil && j.read != nil && os.SameFile(is, j.read) && is.Size() == j.read.Size() && is.ModTime().Equal(j.read.ModTime())
	if same {
		return j.last, nil
	}
	j.read, j.last = nil, nil
	all, err2 := j.all()
	if err == nil && err2 == nil && time.Since(is.ModTime()) > settled {
		j.read, j.last = is, all
	}
	return all, err2
}

func (j *tokenFile) all() ([]keptToken, error) {
	text, err := safefile.Read(j.path, mostJoin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the join tokens: %w", err)
	}
	var all []keptToken
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("the join tokens in %s are damaged; restore the file or remove it: %w", j.path, err)
	}
	return all, nil
}

// errUnchanged means that a change has nothing to write.
var errUnchanged = errors.New("nothing changed")

// change rewrites the file under its lock; tokens that expired long ago are removed.
func (j *tokenFile) change(name string, do func(*keptToken) (*keptToken, error)) error {
	unlock, err := safefile.Lock(filepath.Dir(j.path))
	if err != nil {
		return fmt.Errorf("%w: the join tokens: %w", ErrUnavailable, err)
	}
	defer unlock()
	all, err := j.all()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var was *keptToken
	at := slices.IndexFunc(all, func(t keptToken) bool { return t.Name == name })
	if at >= 0 {
		was = &all[at]
	}
	switch now, err := do(was); {
	case errors.Is(err, errUnchanged):
		return nil
	case err != nil:
		return err
	case now == nil:
		all = slices.DeleteFunc(all, func(t keptToken) bool { return t.Name == name })
	case was == nil:
		all = append(all, *now)
	default:
		all[at] = *now
	}
	old := j.now().Add(-joinMemory)
	all = slices.DeleteFunc(all, func(t keptToken) bool { return t.Expires.Before(old) })
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if len(text) > mostJoin { // it could not be read again
		return fmt.Errorf(
			"the join tokens: %d bytes, at most %d are kept; take tokens away that are not needed, or wait until some have ended",
			len(text), mostJoin)
	}
	if err := safefile.Write(j.path, text, 0o600); err != nil {
		return fmt.Errorf("%w: the join tokens: %w", ErrUnavailable, err)
	}
	return nil
}
