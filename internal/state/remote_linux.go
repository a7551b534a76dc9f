package state

import "golang.org/x/sys/unix"

// remote returns the kind of the file system of a folder if it is of another machine; empty: it is not, or that is not known.
func remote(dir string) string {
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		return ""
	}
	switch uint32(is.Type) { //nolint:gosec // magic numbers have 32 bits
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	}
	return ""
}
