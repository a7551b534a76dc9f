// Package dev is pilot-discovery dev: a control plane for one user on one machine, with everything on loopback.
//
// Workloads join through a socket in a folder that only this user can reach (package folder). Each gets a loopback address of its own, a
// token for its certificate, and objects, as a user would write them for it, in a source in memory: a ServiceEntry for its name, a
// WorkloadGroup that it registers with, and a Sidecar with its ports. The user's own objects of the same names count instead.
package dev
