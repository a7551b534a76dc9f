// Package authority holds the commands of pilot-discovery for the folder that keeps root, join tokens and revocations. They work
// on the folder alone; a running control plane reads it again when it changes.
package authority
