package handlers

import "context"

// Disk is the disk of the data directory.
type Disk struct {
	Free *int64 `json:"free" doc:"Bytes that the service may still write to the disk of its data directory. Null if the system does not report them." example:"21474836480"`
}

// GetDiskRequest is empty.
type GetDiskRequest struct{}

// GetDisk returns the free space of the disk of the data directory.
func (a *API) GetDisk(context.Context, *GetDiskRequest) (Disk, error) {
	if free := a.DiskFree(); free >= 0 {
		return Disk{Free: &free}, nil
	}
	return Disk{}, nil
}
