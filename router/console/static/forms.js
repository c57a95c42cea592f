// Sends forms without leaving the page, so that nothing is lost that was typed, and shows
// pages with a form as dialogs.

import { all, byId, fail, inside, load, make, parse, prepare, say, texts } from './main.js'

const dialog = byId('dialog')
const content = dialog.querySelector('.content')

// opening is the link that was used last.
let opening
// sending is the form of the dialog that is being sent.
let sending

// open shows the page of a link as a dialog; one that fails is loaded as a page.
export async function open(link) {
	if (sending) return
	opening = link
	const response = await load(link.href, 'content')
	if (opening !== link) return
	if (!response.shows) return location.assign(response.next ?? link.href)
	content.dataset.address = link.href
	// On closing, the browser returns the focus to the link.
	reopen()
	show(response, 'content', content)
}

function reopen() {
	if (!dialog.open) dialog.showModal()
}

const references = ['for', 'form', 'list', 'data-copy', 'aria-labelledby', 'aria-describedby']

// adopted returns HTML of the dialog's page for this one: its links are relative to its own
// address, and its ids could be taken.
function adopted(html) {
	const part = parse(html)
	for (const e of part.querySelectorAll('[href]')) e.setAttribute('href', new URL(e.getAttribute('href'), content.dataset.address))
	const ids = new Set([...part.querySelectorAll('[id]')].map(e => e.id))
	for (const name of references) {
		const renamed = id => ids.has(id) || name === 'form' ? 'in-' + id : id
		for (const e of part.querySelectorAll(`[${name}]`)) e.setAttribute(name, e.getAttribute(name).split(' ').map(renamed).join(' '))
	}
	for (const e of part.querySelectorAll('[id]')) e.id = 'in-' + e.id
	const title = part.querySelector('h1, h2')
	if (title) title.id = 'dialog-title'
	return part
}

// focus focuses the first wrong field; otherwise in a dialog the first field or what leads
// back, never what deletes something, and on a page what it asks or the button that was used.
function focus(within, button) {
	const order = within === content ? ['input:not([type="hidden"]), select, textarea', '[data-cancel]']
		: ['[autofocus]', button?.name && `[name="${button.name}"][value="${CSS.escape(button.value)}"]`, '.message', 'h1']
	const target = ['[aria-invalid="true"]', ...order].map(s => s && within.querySelector(s)).find(Boolean) ?? dialog.querySelector('[data-close]')
	if (target.matches('.message, h1')) target.tabIndex = -1
	target.focus()
}

// send sends a form. The page that it leads to follows, or the form with its errors; of a
// button with data-part only that fragment is shown. A dialog that was closed meanwhile
// opens again unless its form was accepted.
export async function send(form, button) {
	const within = form.closest('main') ?? content
	const parts = button?.dataset.part ?? 'content'
	const data = new FormData(form, button)
	if (within === content && parts === 'content') sending = form
	button?.setAttribute('aria-disabled', 'true')
	try {
		const body = form.enctype === 'multipart/form-data' ? data : new URLSearchParams(data)
		const response = await load(within.dataset.address ?? location.href, parts, { method: 'POST', body })
		const { next } = response
		const ended = next?.pathname === inside('login').pathname
		if (next && !ended) {
			location.assign(next)
			// A second click does nothing until then.
			return await new Promise(done => { setTimeout(done, 3000) })
		}
		if (sending === form) reopen()
		if (ended) fail(texts.ended, within, make('a', { href: next, target: '_blank', textContent: texts.login }))
		else if (within !== content || form.isConnected) show(response, parts, within, button)
	} catch {
		if (sending === form) reopen()
		fail(texts.offline, within)
	} finally {
		if (sending === form) sending = null
		button?.removeAttribute('aria-disabled')
	}
}

// show shows the response to a form. If that is no part of the page, the form stays.
function show({ shows, text }, parts, within, button) {
	if (!shows) return fail(parse(text).querySelector('.message p')?.textContent ?? texts.failed, within)
	const part = within === content ? adopted(text) : parse(text)
	const fresh = parts === 'content' ? [within] : [...part.children]
	if (parts === 'content') within.replaceChildren(part)
	else for (const e of fresh) byId(e.id).replaceWith(e)
	for (const e of fresh) prepare(e)
	if (!button?.isConnected) focus(fresh.at(-1), button)
	const result = fresh.flatMap(e => all(e, '[role="status"]'))[0]
	if (result) say((result.querySelector('.message') ?? result).textContent)
}

dialog.onclose = () => { if (!sending) content.replaceChildren() }
