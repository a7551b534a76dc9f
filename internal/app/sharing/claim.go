package sharing

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"fairway/internal/disk"
	"fairway/internal/identity/safefile"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
)

// claimFile is locked by the control plane that writes a folder, for as long as its process lives.
const claimFile = ".in-use"

// claimWithin is how long a control plane waits for the one before it to end.
const claimWithin = 2 * time.Second

// Claim is a control plane's claim on --clusterStateDir. Its files are of one control plane: another one that was started with the same
// folder by mistake keeps nothing.
type Claim struct {
	dir   string
	taken error // why it is not this control plane's; nil: it is
	file  *os.File
}

// Take claims a folder. It waits for a moment if another process has it. Without a folder there is nothing to claim.
func Take(dir string, log *slog.Logger) *Claim {
	c := &Claim{dir: dir}
	if dir == "" {
		return c
	}
	err := safefile.Folder(dir)
	if err == nil {
		c.file, err = os.OpenFile(filepath.Join(dir, claimFile), os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil { // those who write the files report it
		log.Warn("the folder of --clusterStateDir cannot be claimed", "folder", dir, "error", err)
		return c
	}
	for deadline := time.Now().Add(claimWithin); ; time.Sleep(claimWithin / 100) {
		err = disk.Lock(c.file, false)
		if !disk.Locked(err) {
			break
		}
		if time.Now().After(deadline) {
			c.taken = fmt.Errorf("another control plane of this machine uses the folder %s, so this one keeps nothing on disk", dir)
			log.Error(c.taken.Error(), "flag", "--clusterStateDir")
			c.file.Close()
			return c
		}
	}
	if err != nil {
		log.Warn("the folder of --clusterStateDir cannot be locked: start no other control plane with it", "folder", dir, "error", err)
	}
	return c
}

// Dir returns the folder; empty: there is none, or another control plane uses it.
func (c *Claim) Dir() string {
	if c.taken != nil {
		return ""
	}
	return c.dir
}

// Report has a problem say that another control plane uses the folder.
func (c *Claim) Report(in Problems) {
	if c.taken == nil {
		return
	}
	in.Set(source.Place{Source: "shared state", Name: "folder"}, []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: "pilot-discovery", Name: "state"}, Field: "--clusterStateDir", Code: code.FolderInUse,
		Severity: mesh.Warning, Message: c.taken.Error(),
		Fix: "end one of them, or give each a folder of its own, and start this one again",
	}})
}

// Release gives the folder up.
func (c *Claim) Release() {
	if c != nil && c.file != nil {
		c.file.Close()
	}
}
