// The palette: pages of the navigation at once, objects from the search of the API. It is
// a combobox with a list [ARIA Authoring Practices, Combobox].

import { byId, inside, load, make, visible } from './main.js'

const dialog = byId('palette')
const input = dialog.querySelector('input')
const list = dialog.querySelector('ul')
const status = dialog.querySelector('[role="status"]')

// open shows the palette, with what was typed before selected.
export function open() {
	if (dialog.open) return
	dialog.showModal()
	input.select()
	update()
}

const plain = text => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()

// pages returns the links of the frame that contain all words.
function pages(words) {
	const found = []
	let group = ''
	for (const e of document.querySelectorAll('.side h2, .side li a, .crumbs a, .tools a, #user-menu a')) {
		if (e.matches('h2')) group = e.textContent
		else if (words.every(word => plain(group + ' ' + e.textContent).includes(word))) {
			found.push({ title: e.textContent.trim(), link: e.href, note: group, icon: e.querySelector('.icon') })
		}
	}
	const named = e => words.some(word => plain(e.title).includes(word))
	// Those found by their group come last.
	return found.sort((a, b) => named(b) - named(a))
}

// links are the pages of objects, below the console.
const inBroker = page => ({ project, broker, id }) => `p/${project.id}/b/${broker.id}/${page}` + encodeURIComponent(id)
const links = {
	project: ({ id }) => `p/${id}/brokers`,
	broker: ({ project, id }) => `p/${project.id}/b/${id}/overview`,
	cluster: ({ project, id }) => `p/${project.id}/clusters/${id}`,
	user: ({ id }) => `users/${id}`,
	client: inBroker('client?username='),
	role: inBroker('role?rolename='),
	group: inBroker('group?groupname='),
	session: inBroker('session?clientid='),
	stream: inBroker('streams/detail?streamname='),
	topic: inBroker('topics?search='),
}

let searching, waiting

function update() {
	const text = input.value.trim()
	const found = pages(plain(text).split(/\s+/))
	draw(found)
	searching?.abort()
	clearTimeout(waiting)
	if (text) waiting = setTimeout(() => search(text, found), 150)
}

async function search(text, found) {
	searching = new AbortController()
	try {
		const response = await load(dialog.dataset.search + '?q=' + encodeURIComponent(text), '', { signal: searching.signal })
		const { results, incomplete, not_asked } = JSON.parse(response.text)
		draw([...found, ...results.map(entry)], incomplete.length + not_asked)
	// Aborted, or refused: the pages stay.
	} catch {}
}

function entry(result) {
	const note = [dialog.dataset[result.kind], result.email, result.broker?.name].filter(Boolean).join(' · ')
	return { title: visible(result.name), link: inside(links[result.kind](result)).href, note: visible(note) }
}

function draw(found, missing) {
	const current = list.querySelector('[aria-selected="true"]')?.dataset.link
	list.replaceChildren(...found.slice(0, 60).map(({ title, link, note, icon }, i) => {
		const option = make('li', { role: 'option', id: 'palette-' + i })
		option.dataset.link = link
		option.append(icon?.cloneNode(true) ?? '', make('span', { textContent: title }))
		if (note) option.append(make('span', { textContent: note, className: 'quiet' }))
		return option
	}))
	choose(Math.max(0, [...list.children].findIndex(o => o.dataset.link === current)))
	status.textContent = `${status.dataset.count}: ${found.length}` + (missing ? ' · ' + status.dataset.incomplete : '')
}

function choose(index) {
	const options = [...list.children]
	options.forEach((option, i) => option.setAttribute('aria-selected', i === index))
	input.setAttribute('aria-activedescendant', options[index]?.id ?? '')
	options[index]?.scrollIntoView({ block: 'nearest' })
}

function go(option) {
	if (!option) return
	dialog.close()
	location.assign(option.dataset.link)
}

input.oninput = update
input.onkeydown = event => {
	const options = [...list.children]
	const at = options.findIndex(o => o.getAttribute('aria-selected') === 'true')
	const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key]
	if (to !== undefined && options.length) {
		event.preventDefault()
		choose((to + options.length) % options.length)
	}
	if (event.key === 'Enter' && !event.isComposing) {
		event.preventDefault()
		go(options[at])
	}
}
list.onclick = event => go(event.target.closest('li'))
