// Package folder is where the programs of one user meet on one machine: pilot-discovery dev opens a folder, pilot-agent run joins the mesh
// through its socket, and pilotctl finds the control plane's pages in it. Only its owner can reach anything in it.
package folder
