package sharing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"fairway/internal/identity/authn"
	"fairway/internal/identity/ca"
	"fairway/internal/identity/safefile"
	"fairway/internal/state"
)

// Kept is the state as commands see it, in a folder or in a store.
type Kept struct {
	Dir    string        // of files
	Shared *state.Shared // nil: there are files
}

// Documents returns the documents of the authority.
func (k Kept) Documents() state.Documents {
	if k.Shared != nil {
		return k.Shared.Documents()
	}
	return state.Folder(k.Dir)
}

// Tokens returns the join tokens.
func (k Kept) Tokens() *authn.JoinTokens {
	quiet := slog.New(slog.DiscardHandler) // errors are the command's
	if k.Shared != nil {
		return authn.NewSharedJoinTokens(k.Shared, time.Now, quiet)
	}
	return authn.NewJoinTokens(k.Dir, time.Now, quiet)
}

// Revocations returns the revocations.
func (k Kept) Revocations() *ca.Revocations {
	if k.Shared != nil {
		return ca.NewSharedRevocations(k.Shared, time.Now, slog.New(slog.DiscardHandler))
	}
	return ca.NewRevocations(k.Dir, time.Now)
}

// Close ends calls to the store.
func (k Kept) Close() {
	if k.Shared != nil {
		k.Shared.Close()
	}
}

// The limits of a saved state, in bytes.
const (
	mostBackup   = 256 << 20
	mostDocument = 64 << 20
)

// Save writes the state into a file, for its owner alone. With a key the file is encrypted with it.
func (k Kept) Save(path string, sealer state.Sealer) error {
	b := state.Backup{Version: state.BackupVersion, Saved: time.Now().UTC().Truncate(time.Second), Documents: map[string]string{}}
	docs := k.Documents()
	for _, name := range ca.DocumentNames() {
		text, err := docs.Read(name, mostDocument)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		b.Documents[name] = string(text)
	}
	if len(b.Documents) == 0 {
		return errors.New("there is nothing to save: no root is kept there")
	}
	var err error
	if b.Issued, err = k.Revocations().Issued(); err != nil {
		return err
	}
	content, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if content, err = sealer.Seal(state.SealedAs, content); err != nil {
		return err
	}
	return safefile.Write(path, content, 0o600)
}

// Restore replaces the state by a saved one; force: also over another root. Join tokens are not restored: one that was not used
// when they were saved may have been used since.
func (k Kept) Restore(path string, sealer state.Sealer, force bool) error {
	content, err := safefile.Read(path, mostBackup)
	if err != nil {
		return err
	}
	if content, err = sealer.Open(state.SealedAs, content, mostBackup); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var b state.Backup
	if err := json.Unmarshal(content, &b); err != nil || b.Version != state.BackupVersion {
		return fmt.Errorf("%s is not a state that `pilot-discovery state save` wrote", path)
	}
	for _, name := range ca.DocumentNames() {
		if err := ca.CheckDocument(name, []byte(b.Documents[name])); b.Documents[name] != "" && err != nil {
			return fmt.Errorf("%s: %s: %w", path, name, err)
		}
	}
	docs := k.Documents()
	err = docs.Locked(func() error {
		for _, name := range ca.DocumentNames() {
			there, err := docs.Read(name, mostDocument)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !force {
				return err
			}
			if err == nil && string(there) != b.Documents[name] && !force {
				return fmt.Errorf("%s is there, and is another one: --force replaces it; certificates issued since may be refused",
					docs.Place(name))
			}
		}
		for _, name := range ca.DocumentNames() {
			text, saved := b.Documents[name]
			if !saved {
				continue
			}
			if err := docs.Write(name, []byte(text), ca.DocumentMode(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return k.Revocations().RestoreIssued(b.Issued)
}
