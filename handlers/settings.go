package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"signalbox/db"
)

// The types of broker records.
const (
	typeCloud      = "cloud"
	typeSelfHosted = "self-hosted"
	typeOnPremise  = "on-premise-setup"
)

// ServiceBase are the members of every variant of a broker record.
type ServiceBase struct {
	Type      string    `json:"type" enum:"cloud|self-hosted|on-premise-setup" doc:"Variant: self-hosted for a connection that was added, on-premise-setup for the embedded broker, cloud for a hosted broker." example:"self-hosted"`
	HA        bool      `json:"ha" doc:"True if the broker is highly available, as the node of a cluster is." example:"false"`
	ID        string    `json:"id" doc:"Id of the broker connection." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
	Name      string    `json:"name" doc:"Name of the broker connection." example:"Hall 3"`
	ProjectID string    `json:"project_id" doc:"Id of the project." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	CreatedAt time.Time `json:"created_at" doc:"Time at which the connection was created, RFC 3339." example:"2026-01-31T12:00:00Z"`
	UpdatedAt time.Time `json:"updated_at" doc:"Time of the last change of the connection, RFC 3339." example:"2026-01-31T12:00:00Z"`
}

// Billing are the commercial terms of a broker.
type Billing struct {
	IssuedTo                  string  `json:"issued_to" doc:"To whom the broker is licensed; empty for the embedded broker." example:"\"\""`
	ProductID                 string  `json:"product_id" doc:"Product; signalbox for the embedded broker." example:"signalbox"`
	PeriodStart               string  `json:"period_start" doc:"Start of the billing period, RFC 3339; for the embedded broker the time of its creation." example:"2026-01-31T12:00:00Z"`
	CanceledAt                *string `json:"canceled_at,omitempty" doc:"Time at which the broker was cancelled. Absent if it was not." example:"-"`
	PeriodEnd                 *string `json:"period_end,omitempty" doc:"End of the billing period. Absent if there is none." example:"-"`
	BillingSubscriptionItemID *string `json:"billing_subscription_item_id,omitempty" doc:"Id in the billing system. Absent if there is none." example:"-"`
}

// CloudDetails are the members that only a cloud broker has.
type CloudDetails struct {
	Options     string  `json:"options" doc:"Options of a hosted broker." example:"\"\""`
	Subdomain   string  `json:"subdomain" doc:"Subdomain of a hosted broker." example:"plant"`
	ZoneName    string  `json:"zone_name" doc:"DNS zone of a hosted broker." example:"example.org"`
	Location    string  `json:"location" enum:"fsn1|nbg1|hel1|ash|hil|sin" doc:"Location of a hosted broker." example:"fsn1"`
	State       string  `json:"state" enum:"active|inactive|new|provisioning|updating|error|stopping_payment|payment_stopped|shutting_down" doc:"State of a hosted broker." example:"active"`
	TargetState string  `json:"target_state" enum:"active|inactive" doc:"State that a hosted broker is to reach." example:"active"`
	DeployedAt  *string `json:"deployed_at,omitempty" doc:"Time at which a hosted broker was deployed. Absent if it was not." example:"-"`
	DeleteAt    *string `json:"delete_at,omitempty" doc:"Time at which a hosted broker will be deleted. Absent if it will not." example:"-"`
}

// CloudService is a broker of type cloud.
type CloudService struct {
	_ struct{} `strict:"true"`
	ServiceBase
	URL          string `json:"url" doc:"URL of the broker." example:"mqtts://plant.example.org:8883"`
	VerifyCACert bool   `json:"verify_ca_cert" doc:"True if the certificate of the broker is verified." example:"true"`
	Billing
	CloudDetails
}

// SelfHostedService is a broker of type self-hosted.
type SelfHostedService struct {
	_ struct{} `strict:"true"`
	ServiceBase
	URL          string `json:"url" doc:"URL of the broker." example:"mqtts://broker.example:8883"`
	VerifyCACert bool   `json:"verify_ca_cert" doc:"True if the certificate of the broker is verified." example:"true"`
}

// OnPremiseService is a broker of type on-premise-setup.
type OnPremiseService struct {
	_ struct{} `strict:"true"`
	ServiceBase
	Billing
}

// ProjectService is a broker in one of the three variants.
type ProjectService struct{ variant any }

// MarshalJSON writes the variant.
func (s ProjectService) MarshalJSON() ([]byte, error) { return json.Marshal(s.variant) }

// OneOf returns the variants for the document.
func (ProjectService) OneOf() []any {
	return []any{SelfHostedService{}, OnPremiseService{}, CloudService{}}
}

func (a *API) serviceBase(row db.Broker) ServiceBase {
	return ServiceBase{Type: row.Type, HA: row.HA || a.nodeOf(row) != "", ID: row.ID, Name: row.Name, ProjectID: row.ProjectID,
		CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC()}
}

// details decodes the members that only some variants have.
func details(row db.Broker) (b *Billing, c *CloudDetails, err error) {
	if row.Type == typeSelfHosted {
		return nil, nil, nil
	}
	b = &Billing{}
	if err := json.Unmarshal(row.Details, b); err != nil {
		return nil, nil, fmt.Errorf("read details of broker %s: %w", row.ID, err)
	}
	if row.Type != typeCloud {
		return b, nil, nil
	}
	c = &CloudDetails{}
	return b, c, json.Unmarshal(row.Details, c)
}

func (a *API) projectService(row db.Broker) (ProjectService, error) {
	billing, cloud, err := details(row)
	switch base := a.serviceBase(row); {
	case err != nil:
		return ProjectService{}, err
	case cloud != nil:
		return ProjectService{CloudService{ServiceBase: base, URL: row.URL, VerifyCACert: row.VerifyCACert,
			Billing: *billing, CloudDetails: *cloud}}, nil
	case billing != nil:
		return ProjectService{OnPremiseService{ServiceBase: base, Billing: *billing}}, nil
	default:
		return ProjectService{SelfHostedService{ServiceBase: base, URL: row.URL, VerifyCACert: row.VerifyCACert}}, nil
	}
}

// GetProjectSettingsRequest names a project.
type GetProjectSettingsRequest struct{ ProjectPath }

// ProjectSettings is a project with its brokers.
type ProjectSettings struct {
	Project  ProjectDefinition `json:"project" doc:"The project."`
	Services []ProjectService  `json:"services" doc:"Brokers of the project. The member type tells the three variants apart."`
}

// ProjectDefinition is a stored project.
type ProjectDefinition struct {
	_           struct{}          `strict:"true"`
	ID          string            `json:"id" doc:"Id of the project." example:"0190f3c2-5b21-7d0f-8c4e-91a2b3c4d5e6"`
	UserID      *string           `json:"user_id" doc:"Id of the user who owns the project; null if an organization does." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	Name        string            `json:"name" doc:"Name of the project." example:"Plant"`
	Description string            `json:"description" doc:"Description; may be empty." example:"Brokers of the plant"`
	Owner       ProjectOwnerIdent `json:"owner" doc:"Owner of the project, by id."`
}

// ProjectOwnerIdent is the owner of a project, by id.
type ProjectOwnerIdent struct {
	_              struct{} `strict:"true"`
	UserID         string   `json:"userId,omitempty" doc:"Id of the user who owns the project; absent if an organization does." example:"0190f3c2-1a2b-7c3d-8e4f-5a6b7c8d9e0f"`
	OrganizationID string   `json:"organizationId,omitempty" doc:"Id of the organization that owns the project; absent if a user does." example:"-"`
}

// GetProjectSettings returns a project with its brokers.
func (a *API) GetProjectSettings(ctx context.Context, r *GetProjectSettingsRequest) (ProjectSettings, error) {
	p, err := a.DB.GetProject(ctx, r.ProjectID)
	if err != nil {
		return ProjectSettings{}, err
	}
	rows, err := a.visibleBrokers(ctx, r.ProjectID)
	if err != nil {
		return ProjectSettings{}, err
	}
	s := ProjectSettings{Services: make([]ProjectService, 0, len(rows)),
		Project: ProjectDefinition{ID: p.ID, Name: p.Name, Description: p.Description,
			Owner: ProjectOwnerIdent{UserID: p.OwnerID, OrganizationID: p.OrganizationID}}}
	if p.OwnerID != "" {
		s.Project.UserID = &p.OwnerID
	}
	for _, row := range rows {
		svc, err := a.projectService(row)
		if err != nil {
			return ProjectSettings{}, err
		}
		s.Services = append(s.Services, svc)
	}
	return s, nil
}
